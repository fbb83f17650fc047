package grammar

import (
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// TestRealVocabulary compares masks over 128,256 tokens with trying every token.
func TestRealVocabulary(t *testing.T) {
	tokens, v := grammartest.Llama3(t)
	g, err := FromGBNF(jsonGBNF)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Compile(g, v)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Start()
	if err != nil {
		t.Fatal(err)
	}
	mask := make([]uint32, v.MaskWords())
	for _, text := range []string{"", `{"`, `naïve \"text`, `": [1, 2.5e3, {"x`, `y": null}`, `]`, `}`} {
		for _, id := range grammartest.Split(tokens, text) {
			if err := m.Accept(id); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Mask(mask); err != nil {
			t.Fatal(err)
		}
		for id := range int32(len(tokens.Bytes)) {
			got := mask[id/32]>>(id%32)&1 == 1
			c := *m
			if want := c.Accept(id) == nil; got != want {
				t.Fatalf("after %q: token %q is allowed: %v, want %v", text, tokens.Bytes[id], got, want)
			}
		}
	}
	if !m.Done() {
		t.Error("the text is not complete")
	}
}

// jsonGBNF is JSON as llama.cpp's users write it, with a bound on white space.
const jsonGBNF = `
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws     ::= [ \t\n]{0,20}
`
