package server_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

type ollamaAnswer struct {
	Message  struct{ Role, Content string }
	Response string
	Done     bool
	Reason   string `json:"done_reason"`
	Count    int    `json:"eval_count"`
	Error    string
	Logprobs []struct{ Token string }
}

// TestOllama: lines that add up to the whole answer, for chats and for prompts.
func TestOllama(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	for path, what := range map[string]string{"/api/chat": `"messages": [{"role": "user", "content": "Tell me a story"}]`, "/api/generate": `"prompt": "Tell me a story"`} {
		body := `{"model": "demo:latest", "options": {"temperature": 0, "num_predict": 10}, ` + what
		status, text := post(t, h, path, body+`, "stream": false}`)
		var whole, line ollamaAnswer
		if err := json.Unmarshal([]byte(text), &whole); err != nil || status != 200 || !whole.Done || whole.Reason != "length" || whole.Count != 10 {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		_, text = post(t, h, path, body+`}`)
		streamed := ""
		for data := range strings.Lines(text) {
			line = ollamaAnswer{}
			if err := json.Unmarshal([]byte(data), &line); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			streamed += line.Message.Content + line.Response
		}
		if want := whole.Message.Content + whole.Response; streamed != want || want == "" || !line.Done {
			t.Errorf("%s: the lines say %q, the whole answer %q", path, streamed, want)
		}
	}
	for body, want := range map[string]string{
		`{"model": "llama3"}`: "no model", `{"prompt": "x", "format": "xml"}`: "format", `{"messages": [{"role": "user", "images": ["x"]}]}`: "images",
	} {
		if status, text := post(t, h, "/api/chat", body); status/100 != 4 || !strings.Contains(text, want) || !strings.HasPrefix(text, `{"error":"`) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// TestOllamaRaw: a raw prompt goes to the model as it is, as a completion's does; without a prompt the model is loaded, which it
// is; what would change the answer and is not done is refused.
func TestOllamaRaw(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	_, text := post(t, h, "/v1/completions", `{"prompt": "Once upon a time", "temperature": 0, "max_tokens": 8}`)
	want := parse(t, text).Choices[0].Text
	var got ollamaAnswer
	_, text = post(t, h, "/api/generate", `{"prompt": "Once upon a time", "raw": true, "stream": false, "logprobs": true, "options": {"temperature": 0, "num_predict": 8}}`)
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Response != want || len(got.Logprobs) != 8 {
		t.Errorf("%s, not %q", text, want)
	}
	for path, body := range map[string]string{"/api/generate": `{"model": "demo", "keep_alive": "5m"}`, "/api/chat": `{"model": "demo", "messages": []}`} {
		if status, text := post(t, h, path, body); status != 200 || !strings.Contains(text, `"done":true,"done_reason":"load"`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for fields, want := range map[string]string{
		`"suffix": "x"`: "suffix", `"template": "x"`: "template", `"context": [1000000]`: "token 0 of the prompt is 1000000", `"context": ["a"]`: "context", `"images": ["x"]`: "images", `"think": true`: "think", `"think": 7`: "think",
	} {
		if status, text := post(t, h, "/api/generate", `{"prompt": "x", `+fields+`}`); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", fields, status, text)
		}
	}
	if status, text := post(t, h, "/api/generate", `{"prompt": "x", "suffix": "", "context": [], "think": false, "stream": false, "options": {"num_predict": 2}}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// TestOllamaContext: the tokens that an answer of /api/generate says lead a request that goes on from them, streamed or not, without a second beginning.
func TestOllamaContext(t *testing.T) {
	h, m := start(t, ridge.Options{}, server.Options{})
	type said struct {
		Response string
		Context  []int32
		Prompt   int `json:"prompt_eval_count"`
		Count    int `json:"eval_count"`
	}
	generate := func(more string) (a said) {
		t.Helper()
		status, text := post(t, h, "/api/generate", `{"prompt": "Once upon a time", "options": {"temperature": 0, "num_predict": 5}`+more+`}`)
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &a); err != nil || status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		return a
	}
	first := generate(`, "stream": false`)
	if len(first.Context) < first.Prompt+first.Count || len(first.Context) > first.Prompt+first.Count+1 {
		t.Errorf("%d tokens of a prompt of %d and an answer of %d", len(first.Context), first.Prompt, first.Count)
	}
	if text := m.Decode(first.Context); !strings.Contains(text, "Once upon a time") || !strings.Contains(text, first.Response) {
		t.Errorf("the tokens are of %q, and not of the prompt and %q", text, first.Response)
	}
	list, err := json.Marshal(first.Context)
	if err != nil {
		t.Fatal(err)
	}
	begin, err := m.Encode("", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{`, "stream": false`, ``} {
		next := generate(more + `, "context": ` + string(list))
		if want := len(first.Context) + first.Prompt - len(begin); next.Prompt != want || len(next.Context) < want || !slices.Equal(next.Context[:len(first.Context)], first.Context) {
			t.Errorf("%q: a prompt of %d tokens, and should be of %d: those before it and its own", more, next.Prompt, want)
		}
	}
	if raw := generate(`, "raw": true, "stream": false`); raw.Context != nil {
		t.Error("an answer to a raw prompt says tokens to go on from, and has no template that would")
	}
}

// TestOllamaModel: what Ollama's clients show of a model, and what they look for before they use it.
func TestOllamaModel(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	for _, path := range []string{"/api/tags", "/api/ps"} {
		_, _, text := request(t, "GET", h.URL+path, "")
		var list struct {
			Models []struct {
				Name, Digest string
				Size         int64
				Details      struct {
					Family, Format string
					Parameters     string `json:"parameter_size"`
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		m := list.Models[0]
		if m.Name != "demo" || len(m.Digest) != 64 || m.Size == 0 || m.Details.Family != "llama" || m.Details.Format != "gguf" || m.Details.Parameters != "7.3M" {
			t.Errorf("%s: %s", path, text)
		}
	}
	for _, name := range []string{"model", "name"} {
		_, text := post(t, h, "/api/show", `{"`+name+`": "demo:latest"}`)
		for _, want := range []string{`"capabilities":["completion","tools"]`, `"general.architecture":"llama"`, `"llama.context_length":2048`, `"template":"{%`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", text, want)
			}
		}
	}
}
