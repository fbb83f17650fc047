package tokenizer

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAppendEncodeDoesNotAllocate(t *testing.T) {
	tok := fixture(t, "demo.json")
	text := strings.Repeat("Once upon a time <|im_end|> there was a small green dragon. ", 20)
	dst := mustEncode(t, tok, text, whole)
	n := testing.AllocsPerRun(100, func() {
		var err error
		if dst, err = tok.AppendEncode(dst[:0], text, whole); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0.5 { // the pool may lose its encoder to the garbage collector
		t.Errorf("%.1f allocations a call", n)
	}
}

func TestConcurrentEncode(t *testing.T) {
	tok := fixture(t, "demo.json")
	texts := []string{"Once upon a time", "there was a 🦙", "paged attention\n\n", strings.Repeat("long ", 100)}
	var want [][]int32
	for _, text := range texts {
		want = append(want, mustEncode(t, tok, text, whole))
	}
	tok.words = newWordCache()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				ids, err := tok.Encode(texts[i%len(texts)], whole)
				if err != nil || !slices.Equal(ids, want[i%len(texts)]) {
					t.Errorf("%q: got %v, %v", texts[i%len(texts)], ids, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestHostileTexts holds that texts without a place to cut them take time in proportion, near enough, to their length.
// Quadratic work on these would take minutes.
func TestHostileTexts(t *testing.T) {
	const n = 300_000
	start := time.Now()
	for _, name := range []string{"demo.json", "spm.json", "unigram.json", "wordpiece.json"} {
		tok := fixture(t, name)
		for _, unit := range []string{"a", "ab", " ", "\n", "é", "\u0301", "▁", "'", "<", "<|im_", "x\u0316\u0301", "\xff"} {
			ids := mustEncode(t, tok, strings.Repeat(unit, n/len(unit)), whole)
			if len(ids) == 0 {
				t.Errorf("%s: %q gives no ids", name, unit)
			}
		}
	}
	if d := time.Since(start); d > 60*time.Second {
		t.Errorf("took %v", d)
	}
}
