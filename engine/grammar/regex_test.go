package grammar

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
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
			x, err := parseRegex(pattern)
			if err != nil {
				t.Fatal(err)
			}
			if x, err = anchored(x, whole); err != nil {
				t.Fatal(err)
			}
			g := &Grammar{rules: []rule{{name: "root", body: x}}}
			v, _ := NewVocabulary(Tokens{Bytes: [][]byte{nil}, Ends: nil})
			a, err := Compile(g, v)
			for _, text := range texts {
				if got := err == nil && a.matches(text); got != want.MatchString(text) {
					t.Fatalf("%q, whole %v: %q matches: %v, want %v", pattern, whole, text, got, !got)
				}
			}
		}
	})
}

// matches reads a text without tokens.
func (a *Automaton) matches(text string) bool {
	p, err := a.start()
	for _, b := range []byte(text) {
		if err != nil {
			return false
		}
		var i int32
		i, err = a.step(p, a.prog.class[b])
		p = a.positions[i]
	}
	return err == nil && p.done
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
		g, err := FromRegex(c.pattern)
		m, err := start(t, g, err)
		if err != nil {
			if c.pattern != "[]" {
				t.Errorf("%s: %v", c.pattern, err)
			}
			continue
		}
		if !reads(m, c.yes) || reads(m, c.no) {
			t.Errorf("%s: %q matches: %v, %q matches: %v", c.pattern, c.yes, reads(m, c.yes), c.no, reads(m, c.no))
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
		g, err := FromRegex(pattern)
		if _, err = start(t, g, err); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: the error is %v, want one with %q", pattern, err, want)
		}
	}
}

func FuzzRegex(f *testing.F) {
	for _, s := range []string{`^[a-z]{2,5}$`, `(a|b)*?c+`, `\u{1F600}|\p{L}`, `[^\d-x]$|^`, `((a{2}){3}){4}`, `(?<n>x)\/`, `a{1000}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		g, err := FromRegex(pattern)
		m, err := start(t, g, err)
		if err != nil {
			return
		}
		// What package regexp understands too must mean the same.
		r, err := regexp.Compile("^(?:" + pattern + ")$")
		text, ok := write(t, m, testRand(pattern), 20)
		if err != nil || !ok || strings.ContainsAny(pattern, `\[{(.$^`) {
			return
		}
		if !r.MatchString(text) {
			t.Errorf("%q wrote %q", pattern, text)
		}
	})
}

func ExampleFromRegex() {
	g, _ := FromRegex(`v\d+(\.\d+){0,2}`)
	a, _ := Compile(g, exampleVocabulary())
	m, _ := a.Start()
	for _, token := range []int32{1, 3, 4} { // v, 2, .
		err := m.Accept(token)
		fmt.Println(err, m.Done())
	}
	fmt.Println(m.Accept(10)) // n
	// Output:
	// <nil> false
	// <nil> true
	// <nil> false
	// grammar: token 10 ("n") may not come here
}
