package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestLongPrompts: every API refuses a prompt many times as long as the context without reading it to its end, says of one a little too long how long it is, and
// cuts where that is asked for.
func TestLongPrompts(t *testing.T) {
	h, m := start(t, ridge.Options{Context: 64}, server.Options{})
	far, near := strings.Repeat("Once upon a time ", 100_000), strings.Repeat("Once upon a time ", 40)
	ids, err := m.Encode(near, true)
	if err != nil || len(ids) <= 64 || len(ids) > 4*64 {
		t.Fatalf("%d tokens, %v", len(ids), err)
	}
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt": %q}`,
		"/v1/chat/completions": `{"messages": [{"role": "user", "content": %q}]}`,
		"/v1/responses":        `{"input": %q}`,
		"/v1/messages":         `{"max_tokens": 4, "messages": [{"role": "user", "content": %q}]}`,
		"/api/generate":        `{"prompt": %q}`,
		"/api/chat":            `{"messages": [{"role": "user", "content": %q}]}`,
		"/v1/embeddings":       `{"input": ["x", %q]}`,
		"/api/embed":           `{"truncate": false, "input": %q}`,
	} {
		if status, text := post(t, h, path, fmt.Sprintf(body, far)); status != 400 || !strings.Contains(text, "tokens or more and the context is 64") {
			t.Errorf("%s, far too long: %d %.300s", path, status, text)
		}
		if status, text := post(t, h, path, fmt.Sprintf(body, near)); status != 400 || !strings.Contains(text, "tokens and the context is 64") {
			t.Errorf("%s, a little too long: %d %.300s", path, status, text)
		}
	}
	start := m.Decode(ids[:64])
	_, want := post(t, h, "/api/embeddings", fmt.Sprintf(`{"prompt": %q}`, start))
	for _, text := range []string{far, near} {
		if status, got := post(t, h, "/api/embeddings", fmt.Sprintf(`{"prompt": %q}`, text)); status != 200 || got != want {
			t.Errorf("the embedding of what is cut: %d %.100s, that of its beginning %.100s", status, got, want)
		}
	}
}
