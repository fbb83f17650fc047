package regex

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ridge-llm/ridge/engine/grammar/automaton"
	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// drawPattern draws a pattern that means the same to package regexp and here.
func drawPattern(t *rapid.T, depth int, anchors bool) string {
	atoms := []string{"a", "b", "é", "[ab]", "[^a]", ".", `\d`, `\w`, `\.`, "", `[b-d\d]`, `\x61`, `\pL`}
	kinds := []string{"atom", "atom"}
	if depth > 0 {
		kinds = append(kinds, "seq", "seq", "seq", "alt", "group", "times")
		if anchors {
			kinds = append(kinds, "begin", "end")
		}
	}
	inner := func(anchors bool) string { return drawPattern(t, depth-1, anchors) }
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "atom":
		return strings.Replace(rapid.SampledFrom(atoms).Draw(t, "atom"), `\pL`, `\p{L}`, 1)
	case "seq":
		return inner(anchors) + inner(anchors)
	case "alt":
		return "(?:" + inner(anchors) + "|" + inner(anchors) + ")"
	case "group":
		return "(" + inner(anchors) + ")"
	case "begin":
		return "^" + inner(anchors)
	case "end":
		return inner(anchors) + "$"
	}
	q := rapid.SampledFrom([]string{"*", "+", "?", "*?", "{2}", "{1,}", "{0,3}", "{2,3}?"}).Draw(t, "quantifier")
	return "(?:" + inner(false) + ")" + q
}

// TestRegex compares patterns with package regexp, matching the whole text and somewhere in it.
func TestRegex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := drawPattern(t, 4, true)
		texts := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("aabcé.1\n")), 0, 6, -1), 1, 20).Draw(t, "texts")
		for _, whole := range []bool{true, false} {
			want := regexp.MustCompile("(?:" + pattern + ")")
			if whole {
				want = regexp.MustCompile("^(?:" + pattern + ")$")
			}
			x, err := Expr(pattern, whole)
			if err != nil {
				t.Fatal(err)
			}
			g := &syntax.Grammar{Rules: []syntax.Rule{{Name: "root", Body: x}}}
			a, err := automaton.Compile(g, grammartest.ByteVocabulary())
			m := new(automaton.Matcher)
			if err == nil {
				if m, err = a.Start(); err != nil {
					t.Fatal(err)
				}
			}
			for _, text := range texts {
				if got := err == nil && grammartest.Reads(m, text); got != want.MatchString(text) {
					t.Fatalf("%q, whole %v: %q matches: %v, want %v", pattern, whole, text, got, !got)
				}
			}
		}
	})
}

func TestRegexDialect(t *testing.T) {
	for _, c := range []struct{ pattern, yes, no string }{
		{`\u0041\u{1F600}\uD83D\uDE00`, "A😀😀", "A😀"},
		{`[\w-.]+`, "a-._9", "a b"},
		{`[^\n]\s\S\D\W`, "a\u3000xx-", "a\u3000x1-"},
		{`[]`, "", "a"},
		{`[^]`, "\n", ""},
		{`a{,3}{x`, "a{,3}{x", "aaa{x"},
		{`\cJ\0\f\v\t\r`, "\n\x00\f\v\t\r", ""},
		{`(?<year>\d{4})-[\b]`, "2024-\b", "2024-"},
		{`\p{Lu}\P{Lu}\p{Script=Greek}\p{Letter}\p{ASCII}\p{Any}`, "Aaαé!中", "aaαé!中"},
		{`(^a|b$)`, "a", "ab"},
		{`^(a|)^b$`, "b", "ab"},
		{`a\/b\-c`, "a/b-c", "a"},
		{`(a{30}){20}b`, strings.Repeat("a", 600) + "b", strings.Repeat("a", 599) + "b"},
		{`(ab?){0,1000}c`, strings.Repeat("aba", 500) + "c", strings.Repeat("aba", 501) + "c"},
	} {
		g, err := Parse(c.pattern)
		m, err := grammartest.Start(t, g, err)
		if err != nil {
			if c.pattern != "[]" {
				t.Errorf("%s: %v", c.pattern, err)
			}
			continue
		}
		if !grammartest.Reads(m, c.yes) || grammartest.Reads(m, c.no) {
			t.Errorf("%s: %q matches: %v, %q matches: %v", c.pattern, c.yes, grammartest.Reads(m, c.yes), c.no, grammartest.Reads(m, c.no))
		}
	}
}

func TestRegexRefusals(t *testing.T) {
	for pattern, want := range map[string]string{
		`a(?=b)`:                    "look-around",
		`a(?<!b)`:                   "look-around",
		`(a)\1`:                     "back-reference",
		`\bword`:                    `word boundary \b`,
		`(?i)a`:                     "flags",
		`a**`:                       "follows another quantifier",
		`*a`:                        "nothing before it",
		`(a`:                        "has no )",
		`a)`:                        "has no (",
		`[a`:                        "has no ]",
		`[b-a]`:                     "backwards",
		`a{3,2}`:                    "wrong way round",
		`a{9999999999}`:             "more than 1073741824 times",
		`\p{Klingon}`:               `\p{Klingon}`,
		`\q`:                        `\q`,
		`\uD800`:                    "surrogate",
		`\xZZ`:                      "hexadecimal",
		`a\`:                        "nothing after it",
		"\xff":                      "UTF-8",
		`(^a)*`:                     "anchor within a repetition",
		strings.Repeat("(", 100000): "nested",
		`a^`:                        "no text at all",
		`(a|b)*a(a|b){20}`:          "more than 150000 states",
	} {
		g, err := Parse(pattern)
		if _, err = grammartest.Start(t, g, err); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: the error is %v, want one with %q", pattern, err, want)
		}
	}
}

func FuzzRegex(f *testing.F) {
	for _, s := range []string{`^[a-z]{2,5}$`, `(a|b)*?c+`, `\u{1F600}|\p{L}`, `[^\d-x]$|^`, `((a{2}){3}){4}`, `(?<n>x)\/`, `a{1000}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		g, err := Parse(pattern)
		m, err := grammartest.Start(t, g, err)
		if err != nil {
			return
		}
		// What package regexp understands too must mean the same.
		r, err := regexp.Compile("^(?:" + pattern + ")$")
		text, ok := grammartest.Write(t, m, grammartest.ByteTokens(), grammartest.Rand(pattern), 20)
		if err != nil || !ok || strings.ContainsAny(pattern, `\[{(.$^`) {
			return
		}
		if !r.MatchString(text) {
			t.Errorf("%q wrote %q", pattern, text)
		}
	})
}
