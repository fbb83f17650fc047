package server_test

import (
	"encoding/json"
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
		`"suffix": "x"`: "suffix", `"template": "x"`: "template", `"context": [1]`: "context", `"images": ["x"]`: "images", `"think": true`: "think", `"think": 7`: "think",
	} {
		if status, text := post(t, h, "/api/generate", `{"prompt": "x", `+fields+`}`); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", fields, status, text)
		}
	}
	if status, text := post(t, h, "/api/generate", `{"prompt": "x", "suffix": "", "context": [], "think": false, "stream": false, "options": {"num_predict": 2}}`); status != 200 {
		t.Errorf("%d %s", status, text)
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
