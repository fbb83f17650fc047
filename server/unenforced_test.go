package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestUnenforced: what of a schema that is not strict cannot be enforced is left to the model, and the header says it; the rest holds.
func TestUnenforced(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const user = `{"max_tokens": 20, "messages": [{"role": "user", "content": "x"}], `
	const odd = `{"type": "array", "items": {"type": "integer", "maximum": 9, "minimum": 0}, "uniqueItems": true, "maxItems": 3}`
	const tool = `"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": ` + odd + `}, "required": ["a"]}}}], "tool_choice": "required"}`
	for _, c := range []struct{ path, body, want string }{
		{"/v1/chat/completions", user + `"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": ` + odd + `}}}`, "#/uniqueItems"},
		{"/v1/chat/completions", user + `"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": false, "schema": ` + odd + `}}}`, "#/uniqueItems"},
		{"/v1/chat/completions", user + `"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "integer", "not": {"const": 3}}}}}`, ""},
		{"/v1/chat/completions", user + tool, "f#/properties/a/uniqueItems"},
		{"/v1/responses", `{"max_output_tokens": 20, "input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": ` + odd + `}}}`, "#/uniqueItems"},
		{"/api/chat", `{"stream": false, "messages": [{"role": "user", "content": "x"}], "options": {"num_predict": 20}, "format": ` + odd + `}`, "#/uniqueItems"},
	} {
		r, err := http.Post(h.URL+c.path, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if got := r.Header.Get("X-Ridge-Unenforced"); r.StatusCode != 200 || got != c.want {
			t.Errorf("%s %s: %d, unenforced %q, want %q", c.path, c.body, r.StatusCode, got, c.want)
		}
	}
}
