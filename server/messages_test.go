package server_test

import (
	"encoding/json"
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
	for bad, sentence := range map[string]string{
		`{"messages": []}`: "max_tokens is missing",
		`{"max_tokens": 1, "messages": [{"role": "system", "content": "x"}]}`:                         "role",
		`{"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image"}]}]}`:           "image",
		`{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f"}]}`: "input_schema",
	} {
		status, text := post(t, h, "/v1/messages", bad)
		if status != 400 || !strings.Contains(text, sentence) || !strings.Contains(text, `"type":"error"`) {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
}
