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
	if a, b := Mistral.CallID("a"), Mistral.CallID("b"); len(a) != 9 || a == b || Hermes.CallID("a") != "call_a" {
		t.Errorf("the ids of calls are %q and %q", a, b)
	}
	if _, ok := NoTools.Form(); ok {
		t.Error("a style without tools has a form")
	}
}

// forms is a call in each style.
func forms() map[ToolStyle]string {
	all := map[ToolStyle]string{}
	for _, style := range []ToolStyle{Hermes, Llama3, Mistral, Devstral, DeepSeek, R1, Harmony} {
		f, _ := style.Form()
		all[style] = f.Begin + f.Open + "f" + f.Middle + `{"a": 1}` + f.Close + f.End
	}
	all[Coder] = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
	all[Seed] = strings.NewReplacer("<tool", "<seed:tool", "</tool", "</seed:tool").Replace(all[Coder])
	all[GLM] = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"
	return all
}

// TestForeignForms: what one style takes for a call is text to all others, word by word.
func TestForeignForms(t *testing.T) {
	family := map[ToolStyle]ToolStyle{Devstral: Mistral, R1: DeepSeek}
	kin := func(s ToolStyle) ToolStyle {
		if f, ok := family[s]; ok {
			return f
		}
		return s
	}
	for wrote, text := range forms() {
		for reads := range forms() {
			if kin(wrote) == kin(reads) {
				continue
			}
			if got := parsePieces(withTools(reads), strings.Split("Look: "+text, "")...); got != "content: Look: "+text {
				t.Errorf("%s reads %s of %s", reads, got, wrote)
			}
		}
	}
}

// TestCutOffForms: when an answer ends in the middle of a call, nothing of it is lost: it is text as long as the call's
// name is not known, and then as many arguments as there are.
func TestCutOffForms(t *testing.T) {
	for style, text := range forms() {
		for i := range text {
			got := parsePieces(withTools(style), strings.Split(text[:i], "")...)
			_, arguments, called := strings.Cut(got, "call 0: f")
			arguments = strings.TrimPrefix(arguments, "\narguments 0: ")
			switch {
			case called && !strings.HasPrefix(`{"a": 1}`, arguments):
				t.Errorf("%s: %q has the arguments %q", style, text[:i], arguments)
			case !called && style != Harmony && strings.TrimSpace(strings.TrimPrefix(got, "content: ")) != strings.TrimSpace(text[:i]):
				t.Errorf("%s: %q gives %q", style, text[:i], got)
			}
		}
	}
}
