// Package sdktest drives a real server, with the built-in model, through the clients that OpenAI, Anthropic and Ollama
// publish: what they cannot read is wrong, whatever our own tests say. It is a module of its own, so that users of
// Ridge do not download them.
package sdktest

import (
	"net/http/httptest"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/store"
)

const (
	key   = "secret"
	model = "demo"
	fox   = "Tell me a story about a fox named Pip"
)

// start is the address of a server that has everything on.
func start(t *testing.T) string {
	t.Helper()
	m, err := ridge.Load("", ridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(m, server.Options{Keys: []access.Key{access.NewKey(key)}, Store: st})
	h := httptest.NewServer(s)
	t.Cleanup(func() { h.Close(); s.Close(); m.Close(); st.Close() })
	return h.URL
}

// schema is a JSON schema that an answer can be held to.
var schema = map[string]any{
	"type": "object", "additionalProperties": false, "required": []string{"name", "brave"},
	"properties": map[string]any{"name": map[string]any{"type": "string", "maxLength": 12}, "brave": map[string]any{"type": "boolean"}},
}

// hero is what satisfies schema.
type hero struct {
	Name  string `json:"name"`
	Brave *bool  `json:"brave"`
}
