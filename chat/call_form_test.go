package chat

import (
	"strings"
	"testing"
)

// TestForms: what a form writes, the parser of its style reads, one call and several, cut anywhere.
func TestForms(t *testing.T) {
	for _, style := range []ToolStyle{Hermes, Llama3, Mistral, Devstral, DeepSeek, R1, Harmony} {
		f, ok := style.Form()
		if !ok {
			t.Fatalf("%s has no form", style)
		}
		call := func(name, arguments string) string { return f.Open + name + f.Middle + arguments + f.Close }
		text := f.Begin + call("f", `{"a": "}"}`)
		want := "call 0: f\narguments 0: {\"a\": \"}\"}"
		if !f.Single {
			text += f.Between + call("g", "{}")
			want += "\ncall 1: g\narguments 1: {}"
		}
		text += f.End
		if trigger := style.Trigger(); !strings.HasPrefix(text, trigger) {
			t.Errorf("%s: a call does not begin with %q: %s", style, trigger, text)
		}
		for i := range text {
			if got := parsePieces(withTools(style), text[:i], text[i:]); got != want {
				t.Errorf("%s, cut at %d: %s gives\n%s\nwant\n%s", style, i, text, got, want)
			}
		}
	}
	if _, ok := NoTools.Form(); ok {
		t.Error("a style without tools has a form")
	}
}
