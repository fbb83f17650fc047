package server_test

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// FuzzBodies: no body makes the server panic or blame itself, whichever path it is sent to.
func FuzzBodies(f *testing.F) {
	m, err := ridge.Load("", ridge.Options{Context: 64})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { m.Close() })
	s := server.New(m, server.Options{})
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/tokenize", "/detokenize", "/v1/chat/completions/render", "/api/chat"}
	for i, body := range []string{
		`{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "tools": [{"type": "function", "function": {"name": "f"}}], "n": 2, "stream": true}`,
		`{"prompt": [[1, 2], [3]], "logit_bias": {"5": -100}, "stop": ["a", "b"], "logprobs": 1, "max_tokens": 2}`,
		`{"max_tokens": 2, "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "y"}]}]}`,
		`{"prompt": "a", "add_special_tokens": false}`, `{"tokens": [1, 2, 3]}`, `{"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{"}}]}]}`,
		`{"messages": [{"role": "user", "content": "a"}], "options": {"num_predict": 2}}`,
	} {
		f.Add(uint8(i), []byte(body))
	}
	f.Fuzz(func(t *testing.T, path uint8, body []byte) {
		r := httptest.NewRequest("POST", paths[int(path)%len(paths)], bytes.NewReader(body))
		r.Header.Set("X-Request-Timeout", "30ms")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code == 500 {
			t.Errorf("%s to %s: %s", body, r.URL.Path, w.Body)
		}
	})
}
