package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// TestMost: a text that has more tokens than are wanted gives the first of them, and any other all of its own.
func TestMost(t *testing.T) {
	for _, name := range []string{"demo.json", "spm.json", "unigram.json", "wordpiece.json"} {
		tok := fixture(t, name)
		for _, text := range []string{
			"Once upon a time there was a small green dragon.", strings.Repeat("<|im_end|>", 20), "a\n\n b  c " + strings.Repeat("ab", 200) + " é",
			"The cat <|im_start|> sat.\n1234567 don't", "", "   ",
		} {
			for _, special := range []bool{false, true} {
				o := Options{Special: special, ParseSpecial: true}
				all := mustEncode(t, tok, text, o)
				for most := 1; most <= len(all)+2; most++ {
					o.Most = most
					ids, err := tok.Encode(text, o)
					want := all[:min(most, len(all))]
					if wantErr := most < len(all); errors.Is(err, ErrMore) != wantErr || !wantErr && err != nil || !slices.Equal(ids, want) {
						t.Fatalf("%s: %q, at most %d: %v, %v; all are %v", name, text, most, ids, err, all)
					}
				}
			}
		}
	}
}

// TestMostReadsNoFurther: what is behind the tokens that are wanted is not read.
func TestMostReadsNoFurther(t *testing.T) {
	for _, name := range []string{"demo.json", "spm.json", "unigram.json", "wordpiece.json"} {
		tok := fixture(t, name)
		counted := &countingModel{model: tok.model}
		tok.model = counted
		if _, err := tok.Encode(strings.Repeat("Once upon a time 123 <|im_end|> ", 10_000), Options{ParseSpecial: true, Most: 100}); !errors.Is(err, ErrMore) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if counted.words > 101 {
			t.Errorf("%s: %d words were read for 100 tokens", name, counted.words)
		}
	}
}

// countingModel counts the words that are read, without those that are remembered.
type countingModel struct {
	model
	words int
}

func (m *countingModel) appendIDs(dst []int32, word string, sc *scratch) ([]int32, error) {
	m.words++
	return m.model.appendIDs(dst, word, sc)
}

// TestLeast: no text has fewer tokens than its length says.
func TestLeast(t *testing.T) {
	texts := []string{
		strings.Repeat(" ", 5000), strings.Repeat("\n", 5000), strings.Repeat("-", 5000), strings.Repeat("e", 5000), strings.Repeat("K", 3000), strings.Repeat("각", 1000), strings.Repeat("𝐀", 1000),
		strings.Repeat("🦙", 1000), strings.Repeat("\xff\xf0\x9f", 1000), strings.Repeat("Once upon a time ", 300), strings.Repeat("<|im_end|>"+strings.Repeat(" ", 50), 50), strings.Repeat("<m|arker|>", 100),
	}
	known := 0
	for _, name := range []string{"demo.json", "spm.json", "unigram.json", "wordpiece.json"} {
		tok := fixture(t, name)
		for _, text := range texts {
			for _, mark := range []string{"", "m|arker"} {
				o := Options{ParseSpecial: true, Mark: mark}
				least, n := tok.Least(text, o), len(mustEncode(t, tok, text, o))
				if n < least {
					t.Errorf("%s: %.20q… of %d bytes has %d tokens, at least %d were promised", name, text, len(text), n, least)
				}
				if least > 0 {
					known++
				}
			}
		}
	}
	if known == 0 {
		t.Error("no length of a text told anything")
	}
}

// TestShrinkage: no rune becomes less than a fourth of its bytes in any form of Unicode, nor do the sequences that compose to one.
func TestShrinkage(t *testing.T) {
	for _, form := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
		n := unicodeForm{form}
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if !utf8.ValidRune(r) {
				continue
			}
			for _, s := range []string{string(r), norm.NFD.String(string(r)), norm.NFKD.String(string(r))} {
				if got := n.normalize(s); len(s) > len(got)*shrinkage(n) {
					t.Fatalf("%U: %q of %d bytes becomes %q of %d", r, s, len(s), got, len(got))
				}
			}
		}
	}
}
