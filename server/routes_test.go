package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
)

// TestShortRoutes: what clients call without /v1 answers as with it, keys come in Azure's header too, and Ollama's clients get a
// version that they know.
func TestShortRoutes(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 64}, server.Options{Keys: []access.Key{access.NewKey("secret")}})
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/models", "", `"object":"list"`},
		{"POST", "/chat/completions", `{"max_tokens": 2.0, "messages": [{"role": "user", "content": "x"}]}`, `"chat.completion"`},
		{"POST", "/completions", `{"max_tokens": "2", "prompt": "x"}`, `"text_completion"`},
		{"POST", "/embeddings", `{"input": "x"}`, `"embedding"`},
		{"POST", "/responses", `{"input": "x", "max_output_tokens": 2}`, `"response"`},
		{"GET", "/api/version", "", `"version":"0.6.4"`},
	} {
		q, err := http.NewRequest(c.method, h.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Api-Key", "secret")
		q.Header.Set("Content-Type", "application/json")
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s: %d %.300s, want %s", c.method, c.path, r.StatusCode, text, c.want)
		}
	}
}
