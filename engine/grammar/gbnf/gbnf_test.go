package gbnf

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

const arithmetic = `
# sums and products
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws # a name
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
`

func TestGBNF(t *testing.T) {
	for _, c := range []struct{ source, yes, no string }{
		{arithmetic, "a +(3*b) = 7\nx=1\n", "a += 7\n"},
		{`root ::= "a" "b"? [^c]{2} .`, "abxyz", "abxcz"},
		{`root ::= [\x41-\u0043\]^-]+ "\"\\\U0001F600"`, `AC]^-"\😀`, `D"\😀`},
		{"root ::= one |\n two\n   | three\none ::= \"1\"\ntwo ::= \"2\"\nthree ::= \"3\"", "3", "4"},
		{"root ::= ( \"a\"\n  \"b\"*\n | \"c\" # or\n )+", "abbcab", "b"},
		{`root ::= "x"{3} "y"{2,} "z"{,2} "w"{0}`, "xxxyyyzz", "xxxyz"},
		{"a ::= \"(\" a \")\" | \"\"\r\nroot ::= a", "((()))", "(()"},
		{`root ::= "é" [é-í]`, "éí", "é"},
		{`root ::= "(" root* ")"`, "(()(()))", "(()(())"},
		{`root ::= "a" | root-2 root-2` + "\nroot-2 ::= \"b\" root", "baba", "bab"},
	} {
		g, err := Parse(c.source)
		m, err := grammartest.Start(t, g, err)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		if !grammartest.Reads(m, c.yes) || c.yes != c.no && grammartest.Reads(m, c.no) {
			t.Errorf("%s: %q matches: %v, %q matches: %v", c.source, c.yes, grammartest.Reads(m, c.yes), c.no, grammartest.Reads(m, c.no))
		}
	}
}

func TestGBNFRefusals(t *testing.T) {
	for source, want := range map[string]string{
		"":                                      `no rule "root"`,
		"root ::= a":                            `"a" is used but not defined`,
		"root ::= \"a\"\nroot ::= \"b\"":        "line 2: rule \"root\" is defined twice",
		"root = \"a\"":                          "::= is expected",
		"root ::= \"a":                          `a " is missing`,
		"root ::= [a":                           "a ] is missing",
		"root ::= (\"a\"":                       "a ) is expected",
		"root ::= \"a\" )":                      "not understood",
		"root ::= [b-a]":                        "backwards",
		"root ::= \"a\"{3,2}":                   "wrong way round",
		"root ::= \"a\"{99999999999999999999}":  "more than",
		"root ::= \"a\"{x}":                     "wants a number",
		"root ::= \"\\q\"":                      `\q`,
		"root ::= \"\\uD800\"":                  "code point",
		"root ::= <[1000]>":                     "angle brackets",
		"root ::= \"a\xff\"":                    "UTF-8",
		"root ::= " + strings.Repeat("(", 1000): "nested",
		"root ::= \"a\"" + strings.Repeat("*", 1000):                "repetitions of repetitions",
		"root ::= expr\nexpr ::= term\nterm ::= expr \"+\" | \"1\"": `"expr" begins with itself ("expr" → "term" → "expr")`,
		"root ::= [a]? root \"b\" | \"c\"":                          `"root" begins with itself`,
		"root ::= \"a\" root":                                       "no text at all",
		strings.Repeat("x", syntax.MaxSource+1):                     "1048577 bytes",
	} {
		g, err := Parse(source)
		if _, err = grammartest.Start(t, g, err); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: the error is %v, want one with %q", source, err, want)
		}
	}
}

func FuzzGBNF(f *testing.F) {
	f.Add(arithmetic)
	for _, s := range []string{"root ::= \"a\"{2,5} | [^\\x00-\\x1F]*\n", "root ::= (\"a\" | root \"b\")+", "root::=.\n#", "root ::= a?\na ::= root"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		g, err := Parse(source)
		m, err := grammartest.Start(t, g, err)
		if err != nil {
			return
		}
		if text, ok := grammartest.Write(t, m, grammartest.ByteTokens(), grammartest.Rand(source), 20); ok && !grammartest.Reads(m, text) {
			t.Errorf("wrote %q, but does not read it", text)
		}
	})
}
