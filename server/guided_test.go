package server_test

import (
	"regexp"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestGuided: a guided answer is in its language and ends where that ends, alone and beside others.
func TestGuided(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	for guide, want := range map[string]string{
		`"guided_choice": ["red panda", "blue whale"]`:    `^(red panda|blue whale)$`,
		`"guided_regex": "[0-9]{3}-[a-f]{2}"`:             `^[0-9]{3}-[a-f]{2}$`,
		`"guided_grammar": "root ::= \"[\" [a-z]+ \"]\""`: `^\[[a-z]+\]?$`,
	} {
		status, text := post(t, h, "/v1/completions", `{"prompt": "Once", "temperature": 1, "n": 3, "max_tokens": 30, `+guide+`}`)
		if status != 200 {
			t.Fatalf("%s: %d %s", guide, status, text)
		}
		for _, c := range parse(t, text).Choices {
			if !regexp.MustCompile(want).MatchString(c.Text) {
				t.Errorf("%s gave %q", guide, c.Text)
			}
		}
	}
	for _, guide := range []string{`"guided_regex": "("`, `"guided_grammar": "root"`, `"guided_regex": "a", "guided_choice": ["b"]`} {
		if status, text := post(t, h, "/v1/completions", `{"prompt": "Once", `+guide+`}`); status != 400 {
			t.Errorf("%s: %d %s", guide, status, text)
		}
	}
}
