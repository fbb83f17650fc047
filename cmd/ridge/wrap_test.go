package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// shown is what a terminal shows of what is written to it: characters, \b, \n and the erasure of the rest of a line.
func shown(t *testing.T, text string, columns int) (lines []string) {
	t.Helper()
	line, at := []rune{}, 0
	for len(text) > 0 {
		if rest, ok := strings.CutPrefix(text, "\x1b[K"); ok {
			line, text = line[:at], rest
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		switch r {
		case '\n':
			lines = append(lines, strings.TrimRight(string(line), " "))
			line, at = line[:0], 0
		case '\b':
			at--
		default:
			if at == columns {
				lines = append(lines, string(line)+"<broken>")
				line, at = line[:0], 0
			}
			line = append(line[:at], r)
			at++
		}
		if at < 0 {
			t.Fatal("the cursor left the line")
		}
	}
	return append(lines, strings.TrimRight(string(line), " "))
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"a fox named Pip went home", []string{"a fox named Pip went", "home"}},
		{"a fox named Pip walked", []string{"a fox named Pip", "walked"}},
		{"one\n\ntwo words", []string{"one", "", "two words"}},
		{"```\nfor i := 0; i < 10; i++ {\n```\nand then there are words", []string{"```", "for i := 0; i < 10; i<broken>", "++ {", "```", "and then there are", "words"}},
		{"twenty characters ab", []string{"twenty characters ab"}},
	} {
		var b strings.Builder
		w := &wrap{out: &b, columns: 20}
		for _, r := range c.text { // as pieces of any size come
			if _, err := w.Write([]byte(string(r))); err != nil {
				t.Fatal(err)
			}
		}
		if got := shown(t, b.String(), 21); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// TestWrapKeepsWords: whatever is written in pieces of whatever size, the words on the screen are those of the text, and none that fits a line is broken.
func TestWrapKeepsWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var words []string
		for range 1 + rng.IntN(30) {
			words = append(words, strings.Repeat(string(rune('a'+rng.IntN(26))), 1+rng.IntN(19)))
		}
		text := strings.Join(words, " ")
		var b strings.Builder
		w := &wrap{out: &b, columns: 20}
		for rest := text; rest != ""; {
			n := min(len(rest), 1+rng.IntN(7))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		lines := shown(t, b.String(), 21)
		if got := strings.Fields(strings.Join(lines, " ")); !slices.Equal(got, words) {
			t.Fatalf("%q became %q", text, lines)
		}
	}
}

// TestFold: lines of a list are broken between words and go on below what they describe; nothing is lost, and nothing else is changed.
func TestFold(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"  /load FILE          go on with the conversation of a file\n", "  /load FILE          go on with the conversation\n                      of a file\n"},
		{"a model on a processor with many threads and a context of 2048 tokens.\n", "a model on a processor with many threads and a\ncontext of 2048 tokens.\n"},
		{"short\n\nlast", "short\n\nlast"},
		{strings.Repeat("x", 60) + "\n", strings.Repeat("x", 60) + "\n"},
	} {
		if got := fold(c.text, 50); got != c.want {
			t.Errorf("%q is folded to %q, and should be %q", c.text, got, c.want)
		}
		if got := fold(c.text, 0); got != c.text {
			t.Errorf("without a terminal %q becomes %q", c.text, got)
		}
	}
	for _, columns := range []int{60, 80, 100} {
		text := fold(sessionHelp, columns)
		if got, want := strings.Fields(text), strings.Fields(sessionHelp); !slices.Equal(got, want) {
			t.Errorf("%d columns: the words of /help are others", columns)
		}
		for line := range strings.Lines(text) {
			if len([]rune(line)) > columns {
				t.Errorf("%d columns: %q is longer", columns, line)
			}
		}
	}
}
