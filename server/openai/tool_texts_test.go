package openai

import (
	"testing"

	"github.com/ridge-llm/ridge"
)

func TestTextParameters(t *testing.T) {
	isText := textParameters([]ridge.Tool{
		{Name: "f", Parameters: []byte(`{"properties": {"a": {"type": "string"}, "n": {"type": "integer"}, "e": {"enum": ["x", "y"]}, "m": {"enum": ["x", 1]}, "u": {}, "l": {"type": ["string", "null"]}}}`)},
		{Name: "g", Parameters: []byte(`{"properties": []}`)},
		{Name: "h"},
	})
	for parameter, want := range map[string]bool{"a": true, "n": false, "e": true, "m": false, "u": false, "l": false, "absent": false} {
		if isText("f", parameter) != want {
			t.Errorf("%s is a text: %t", parameter, !want)
		}
	}
	if isText("g", "a") || isText("h", "a") || isText("k", "a") {
		t.Error("a parameter of which nothing is said is taken for a text")
	}
}
