package server_test

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/store"
)

// FuzzBodies: no body makes the server panic or blame itself, whichever path it is sent to.
func FuzzBodies(f *testing.F) {
	leaks.Check(f)
	m, err := ridge.Load("", ridge.Options{Threads: 1, Context: 64})
	if err != nil {
		f.Fatal(err)
	}
	st, err := store.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	s := server.New(m, server.Options{Store: st})
	f.Cleanup(func() { s.Close(); leaks.Pages(f, m); st.Close(); m.Close() })
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/tokenize", "/detokenize", "/v1/chat/completions/render", "/api/chat",
		"/v1/responses", "/v1/embeddings", "/api/generate", "/api/embed", "/api/show", "/v1/batches", "/v1/files"}
	for i, body := range []string{
		`{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "tools": [{"type": "function", "function": {"name": "f"}}], "n": 2, "stream": true}`,
		`{"prompt": [[1, 2], [3]], "logit_bias": {"5": -100}, "stop": ["a", "b"], "logprobs": 1, "max_tokens": 2}`,
		`{"max_tokens": 2, "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "y"}]}]}`,
		`{"prompt": "a", "add_special_tokens": false}`, `{"tokens": [1, 2, 3]}`, `{"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{"}}]}]}`,
		`{"messages": [{"role": "user", "content": "a"}], "options": {"num_predict": 2}}`,
		`{"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "y"}], "max_output_tokens": 2, "stream": true}`,
		`{"input": ["a", "b"], "encoding_format": "base64", "dimensions": 4}`, `{"prompt": "a", "format": {"type": "object"}, "stream": false}`, `{"input": "a", "truncate": true}`,
		`{"model": "demo"}`, `{"input_file_id": "file-x", "endpoint": "/v1/completions", "completion_window": "24h"}`, `x`,
	} {
		f.Add(uint8(i), []byte(body))
	}
	f.Fuzz(func(t *testing.T, path uint8, body []byte) {
		r := httptest.NewRequest("POST", "http://127.0.0.1"+paths[int(path)%len(paths)], bytes.NewReader(body))
		if r.URL.Path == "/v1/files" {
			r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		}
		r.Header.Set("X-Request-Timeout", "30ms")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code == 500 {
			t.Errorf("%s to %s: %s", body, r.URL.Path, w.Body)
		}
	})
}
