package server_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestDry: over every API that has it, DRY changes an answer that repeats itself, unless breakers lie between, and neutral values change nothing.
func TestDry(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 256}, server.Options{})
	ask := func(path, body string) (text string) {
		t.Helper()
		status, answer := post(t, h, path, body)
		if status != 200 {
			t.Fatalf("%s %s: %d: %s", path, body, status, answer)
		}
		var a struct {
			Content, Response string
			Choices           []struct{ Text string }
		}
		if err := json.Unmarshal([]byte(answer), &a); err != nil {
			t.Fatal(err)
		}
		if text = a.Content + a.Response; len(a.Choices) > 0 {
			text = a.Choices[0].Text
		}
		return text
	}
	for _, api := range []struct{ path, body string }{
		{"/completion", `{"prompt": "Once upon a time", "temperature": 0, "n_predict": 60, "ignore_eos": true, %s}`},
		{"/v1/completions", `{"prompt": "Once upon a time", "temperature": 0, "max_tokens": 60, "ignore_eos": true, %s}`},
		{"/api/generate", `{"prompt": "Once upon a time", "raw": true, "stream": false, "options": {"temperature": 0, "num_predict": 60, %s}}`},
	} {
		again := ask(api.path, fmt.Sprintf(api.body, `"dry_multiplier": 0`))
		for _, c := range []struct {
			fields string
			same   bool
		}{
			{`"dry_multiplier": 30, "dry_allowed_length": 1`, false},
			{`"dry_multiplier": 30, "dry_penalty_last_n": 0`, true},
			{`"dry_multiplier": 30, "dry_allowed_length": 200`, true},
			{`"dry_multiplier": 30, "dry_sequence_breakers": [" "], "dry_allowed_length": 3`, true},
			{`"dry_multiplier": 30, "dry_allowed_length": 1, "dry_sequence_breakers": "[\"\\n\"]"`, false},
			{`"dry_multiplier": 30, "samplers": ["penalties", "temperature"]`, true},
			{`"dry_multiplier": 30, "dry_allowed_length": 1, "samplers": "dt"`, false},
		} {
			if got := ask(api.path, fmt.Sprintf(api.body, c.fields)); (got == again) != c.same {
				t.Errorf("%s with %s: %q; without %q", api.path, c.fields, got, again)
			}
		}
	}
}
