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
	if _, text := post(t, h, "/api/show", `{"model": "demo"}`); !strings.Contains(text, "completion") {
		t.Error(text)
	}
}
