package schema

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// TestElements: texts stand without quotes and without the tag that ends them, everything else is JSON.
func TestElements(t *testing.T) {
	const schema = `{"type": "object", "properties": {"free": {"type": "string"}, "bounded": {"type": "string", "minLength": 2, "maxLength": 9}, "listed": {"enum": ["a\"b", "c"]},
		"date": {"type": "string", "format": "date"}, "either": {"type": ["string", "null"]}, "none": {"$ref": "#/$defs/s"}}, "required": ["free", "more"], "$defs": {"s": {"type": "string"}}}`
	list, err := Elements([]byte(schema), Options{}, "</x>")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Element{}
	var names []string
	for _, e := range list {
		byName[e.Name] = e
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "free bounded listed date either none more" || !byName["free"].Required || !byName["more"].Required || byName["date"].Required {
		t.Errorf("%s", got)
	}
	for name, c := range map[string]struct{ yes, no []string }{
		"free":    {[]string{"", `a "b" <`, "</x", "é\n"}, []string{"</x>", "a</x>b"}},
		"bounded": {[]string{"ab", "</x", "123456789"}, []string{"a", "1234567890", "a</x>"}},
		"listed":  {[]string{`a"b`, "c"}, []string{`"c"`, ""}},
		"date":    {[]string{"2026-11-21"}, []string{`"2026-11-21"`, "2026"}},
		"either":  {[]string{`"x"`, "null"}, []string{"x"}},
		"none":    {[]string{`"x"`}, []string{"x"}},
		"more":    {[]string{`"x"`, "1"}, []string{"x"}},
	} {
		for want, texts := range map[bool][]string{true: c.yes, false: c.no} {
			for _, text := range texts {
				m, err := grammartest.Start(t, byName[name].Value, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := grammartest.Reads(m, text); got != want {
					t.Errorf("%s: %q is allowed: %v, want %v", name, text, got, want)
				}
			}
		}
	}
	for schema, want := range map[string]string{
		`{"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}`: "#/oneOf: oneOf cannot be enforced for arguments that are written as elements",
		`{"minProperties": 1}`:                                                       "minProperties cannot",
		`{"properties": {"a": {"enum": ["</x>"]}}}`:                                  "cannot be written as an element",
		`{"properties": {"a": {"type": "string", "anyOf": [{"minLength": 1}, {}]}}}`: "#/properties/a/anyOf",
		`{"properties": {"a": {"type": "string", "not": {"format": "date"}}}}`:       "#/properties/a/not",
	} {
		if _, err := Elements([]byte(schema), Options{}, "</x>"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", schema, err)
		}
	}
}
