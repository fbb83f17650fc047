package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestNotManaged: where clients may not change the models, Ollama's endpoints say so, of a server of one model and of several.
func TestNotManaged(t *testing.T) {
	one, _ := start(t, ridge.Options{}, server.Options{})
	for name, h := range map[string]*httptest.Server{"one": one, "many": startMany(t, []string{"a"}, 0, server.ModelsOptions{}).Server} {
		for _, c := range [][2]string{{"POST", "/api/pull"}, {"POST", "/api/copy"}, {"POST", "/api/create"}, {"POST", "/api/blobs/sha256:12"}, {"DELETE", "/api/delete"}} {
			r, err := http.NewRequestWithContext(t.Context(), c[0], h.URL+c[1], strings.NewReader(`{"model": "a", "source": "a", "destination": "b"}`))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			text := string(data)
			if err != nil || resp.StatusCode != http.StatusForbidden || !strings.Contains(text, "--manage-models") {
				t.Errorf("%s: %v: status %d: %s", name, c, resp.StatusCode, text)
			}
		}
	}
}

// TestLatest: a model may be named with Ollama's tag in every API.
func TestLatest(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/completions", "/v1/embeddings", "/tokenize"} {
		body := `{"model": "demo:latest", "max_tokens": 2, "stream": false, "messages": [{"role": "user", "content": "Hi"}]}`
		if !strings.HasSuffix(path, "chat/completions") && path != "/v1/messages" && path != "/api/chat" {
			body = `{"model": "demo:latest", "max_tokens": 2, "prompt": "Hi", "input": "Hi"}`
		}
		status, text, err := send(h.URL+path, body)
		if err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %s %v", path, status, text, err)
		}
		if path == "/v1/chat/completions" && !strings.Contains(text, `"model":"demo"`) {
			t.Errorf("the answer is of another name: %s", text)
		}
	}
	if status, text := fetch(t, h.URL+"/v1/models/demo:latest"); status != http.StatusOK {
		t.Errorf("GET /v1/models/demo:latest: %d %s", status, text)
	}
	if status, text, err := send(h.URL+"/v1/chat/completions", `{"model": "demo:7b", "messages": [{"role": "user", "content": "Hi"}]}`); err != nil || status != http.StatusNotFound {
		t.Errorf("another tag: %d %s %v", status, text, err)
	}
}
