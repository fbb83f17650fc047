package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

func TestMessages(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const body = `{"max_tokens": 15, "temperature": 0, "messages": [{"role": "user", "content": [{"type": "text", "text": "Tell me a story"}]}]`
	status, text := post(t, h, "/v1/messages", body+`}`)
	var a struct {
		Type, Role string
		Content    []struct{ Type, Text string }
		Stop       string `json:"stop_reason"`
		Usage      struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 || a.Type != "message" || len(a.Content) != 1 || a.Stop != "max_tokens" || a.Usage.Output != 15 {
		t.Fatalf("%d: %s", status, text)
	}
	_, text = post(t, h, "/v1/messages", body+`, "stream": true}`)
	var names []string
	streamed := ""
	for line := range strings.SplitSeq(text, "\n") {
		if name, ok := strings.CutPrefix(line, "event: "); ok && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var e struct{ Delta struct{ Text string } }
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			streamed += e.Delta.Text
		}
	}
	const want = "message_start content_block_start content_block_delta content_block_stop message_delta message_stop"
	if strings.Join(names, " ") != want || streamed != a.Content[0].Text {
		t.Errorf("events %v say %q; the whole answer is %q", names, streamed, a.Content[0].Text)
	}
	_, text = post(t, h, "/v1/messages/count_tokens", strings.Replace(body, `"max_tokens": 15, `, "", 1)+`}`)
	if want := `{"input_tokens":` + strconv.Itoa(a.Usage.Input) + `}`; strings.TrimSpace(text) != want {
		t.Errorf("count_tokens gives %s and the answer's usage %s", text, want)
	}
	for bad, sentence := range map[string]string{
		`{"messages": []}`: "max_tokens is missing",
		`{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "thinking": {"type": "perhaps"}}`: "thinking.type",
		`{"max_tokens": 1, "messages": [{"role": "system", "content": "x"}]}`:                                "role",
		`{"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image"}]}]}`:                  "image",
		`{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f"}]}`:        "input_schema",
	} {
		status, text := post(t, h, "/v1/messages", bad)
		if status != 400 || !strings.Contains(text, sentence) || !strings.Contains(text, `"type":"error"`) {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
}

// TestMessagesStop: a stop sequence is named, whole and streamed; while text is held back for one the client gets pings; and
// an assistant's message at the end is gone on with.
func TestMessagesStop(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	ask := func(fields string) string {
		t.Helper()
		status, text := post(t, h, "/v1/messages", `{"max_tokens": 12, "temperature": 0, `+fields+`}`)
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		return text
	}
	var a struct{ Content []struct{ Text string } }
	const story = `{"role": "user", "content": "Tell me a story about a fox named Pip"}`
	if err := json.Unmarshal([]byte(ask(`"messages": [`+story+`]`)), &a); err != nil {
		t.Fatal(err)
	}
	whole := a.Content[0].Text
	words := strings.SplitAfterN(whole, " ", 5)
	begun, stop := strings.TrimSuffix(strings.Join(words[:2], ""), " "), strings.TrimSpace(words[3])
	const named = `"stop_reason":"stop_sequence","stop_sequence":`
	for _, stream := range []string{"false", "true"} {
		// The first is completed; the second begins with a word of the answer and goes on otherwise, so that the word is held back.
		text := ask(`"messages": [` + story + `], "stop_sequences": ["` + stop + `", "` + strings.TrimSpace(words[2]) + ` nowhere"], "stream": ` + stream)
		if !strings.Contains(text, named+string(quote(stop))) {
			t.Errorf("stream %s: %s", stream, text)
		}
		if stream == "true" && !strings.Contains(text, "event: ping") {
			t.Errorf("no ping: %s", text)
		}
	}
	if err := json.Unmarshal([]byte(ask(`"messages": [`+story+`, {"role": "assistant", "content": "`+begun+`"}]`)), &a); err != nil {
		t.Fatal(err)
	}
	if rest := a.Content[0].Text; !strings.HasPrefix(begun+rest, whole[:min(len(whole), len(begun+rest))]) {
		t.Errorf("%q goes on with %q; the whole is %q", begun, rest, whole)
	}
}

// TestAnthropicClients: what Anthropic's clients look for beside messages: a thread is refused in the words by which they go on without one, and lists of models are in their form.
func TestAnthropicClients(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const body = `{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]`
	status, text := post(t, h, "/v1/messages", body+`, "thread": {"type": "create"}}`)
	if status != 400 || !strings.Contains(text, `"details":{"error_code":"thread_unsupported_request","unsupported":["thread"]}`) || !strings.Contains(text, "thread is not supported") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := post(t, h, "/v1/messages", body+`, "thread": null}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	for path, want := range map[string][]string{"/v1/models": {`"first_id":"demo"`, `"last_id":"demo"`, `"has_more":false`, `"type":"model"`, `"display_name":"demo"`, `"created_at":"2`}, "/v1/models/demo": {`"type":"model"`, `"display_name":"demo"`}} {
		for _, version := range []string{"", "2023-06-01"} {
			r, err := http.NewRequest(http.MethodGet, h.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if version != "" {
				r.Header.Set("anthropic-version", version)
			}
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(a.Body)
			a.Body.Close()
			for _, w := range want {
				if err != nil || strings.Contains(string(text), w) != (version != "") {
					t.Errorf("%s, version %q: %v, %q in %s", path, version, err, w, text)
				}
			}
		}
	}
}
