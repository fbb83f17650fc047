package schema

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// TestRelax leaves out what cannot be enforced, says what, and enforces the rest.
func TestRelax(t *testing.T) {
	for _, c := range []struct {
		schema string
		left   []string
		yes    []string
		no     []string
	}{
		{`{"type":"object","properties":{"a":{"type":"string","format":"colour"},"b":{"type":"integer"}},"required":["a"]}`,
			[]string{"#/properties/a/format"}, []string{`{"a":"red","b":1}`}, []string{`{"a":1}`, `{"b":1}`}},
		{`{"type":"array","items":{"type":"integer"},"uniqueItems":true}`, []string{"#/uniqueItems"}, []string{`[1,1]`}, []string{`["a"]`}},
		{`{"oneOf":[{"type":"string","format":"date"},{"type":"string","format":"time"}]}`, []string{"#/oneOf as anyOf"}, []string{`"2020-01-01"`}, []string{`"x"`}},
		// The whole negation goes: without the format, it would say that nothing is allowed.
		{`{"type":"string","not":{"format":"date"}}`, []string{"#/not"}, []string{`"x"`, `"2020-01-01"`}, []string{`1`}},
		{`{"properties":{"a":{"$ref":"http://example.org/other.json"}}}`, []string{"#/properties/a/$ref"}, []string{`{"a":1}`}, []string{`[]`}},
		{`{"patternProperties":{"(?=a)":{"type":"integer"}},"additionalProperties":false,"type":"object"}`, []string{"#/patternProperties"}, []string{`{"b":"x"}`}, []string{`1`}},
		{`{"nullable":true,"type":"integer"}`, []string{"#/nullable"}, []string{`1`}, []string{`"a"`}},
	} {
		g, err := Parse([]byte(c.schema), Options{Relax: true})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		if !slices.Equal(g.Unenforced, c.left) {
			t.Errorf("%s leaves out %q, want %q", c.schema, g.Unenforced, c.left)
		}
		m := grammartest.MustStart(t, g, nil)
		for _, text := range c.yes {
			if !grammartest.Reads(m, text) {
				t.Errorf("%s: %s is not allowed", c.schema, text)
			}
		}
		for _, text := range c.no {
			if grammartest.Reads(m, text) {
				t.Errorf("%s: %s is allowed", c.schema, text)
			}
		}
	}
	for _, wrong := range []string{`{"type":"strin"}`, `{"minLength":-1}`, `{"type":"object"`} {
		if _, err := Parse([]byte(wrong), Options{Relax: true}); err == nil {
			t.Errorf("%s is taken, though it is wrong", wrong)
		}
	}
}
