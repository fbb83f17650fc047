package tokenizer

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestOverlaps: a text begins in each token that has it or ends with its beginning, and nowhere else; with the rest behind it, it is there.
func TestOverlaps(t *testing.T) {
	for _, file := range []string{"spm.json", "demo.json"} {
		data, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := FromJSON(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"e", "the", "\n", " a", "ing is"} {
			all, err := tok.Overlaps(text, 20)
			if err != nil {
				t.Fatal(err)
			}
			whole, begun := 0, 0
			for id := range int32(tok.VocabSize()) {
				token := string(tok.TokenBytes(id))
				alone := slices.ContainsFunc(all, func(s []int32) bool { return len(s) == 1 && s[0] == id })
				if alone != strings.Contains(token, text) {
					t.Errorf("%s: %q alone has %q: %v", file, token, text, alone)
				}
				if alone {
					whole++
				}
			}
			for _, s := range all {
				var b strings.Builder
				for _, id := range s {
					b.Write(tok.TokenBytes(id))
				}
				if !strings.Contains(b.String(), text) {
					t.Errorf("%s: the tokens %v are %q, without %q", file, s, b.String(), text)
				}
				if len(s) > 1 {
					begun++
				}
			}
			if whole+begun == 0 || len(text) > 1 && begun == 0 {
				t.Errorf("%s: %q begins in %d tokens and %d beginnings", file, text, whole, begun)
			}
			if len(text) > 1 {
				short, err := tok.Overlaps(text, 1)
				if err != nil || slices.ContainsFunc(short, func(s []int32) bool { return len(s) > 2 }) {
					t.Errorf("%s: %q with tails of 1: %v, %v", file, text, short, err)
				}
			}
		}
	}
}
