package draft

import (
	"slices"
	"testing"
)

// TestLookaheadFindsOrbit: where each token follows from the one before, by a rule that the text so far does not show, since it has no token twice, the window's
// guesses become n-grams of the rule after N-1 steps, and some steps bring several tokens. Each draft is a tree, the window as it is drawn in the paper.
func TestLookaheadFindsOrbit(t *testing.T) {
	next := func(id int32) int32 { return (7*id + 3) % 101 } // an orbit of 100 tokens
	d, err := NewLookahead(LookaheadOptions{Window: 4, NGram: 3, Pool: 3})
	if err != nil {
		t.Fatal(err)
	}
	tokens := []int32{5, 60, 9, 17, 33, 2}
	steps, came := 0, 0
	for ; len(tokens) < 86; steps++ {
		seqs := []Sequence{{ID: 7, Tokens: tokens, Max: 14}}
		if err := d.Propose(seqs); err != nil {
			t.Fatal(err)
		}
		g := &seqs[0].Draft
		first := len(g.Tokens) - g.Window
		if wanted := min(8, 4*(steps+1)); g.Window != wanted || len(g.Tokens) > 14 {
			t.Fatalf("step %d: a window of %d among %d tokens; wanted %d", steps, g.Window, len(g.Tokens), wanted)
		}
		for i := range g.Tokens {
			if g.Parent(i) >= i {
				t.Fatalf("step %d: %+v: token %d comes before its parent", steps, g, i)
			}
			if j, k := (i-first)%4, (i-first)/4; i >= first && len(g.Path(nil, i)) != j+k+1 {
				t.Fatalf("step %d: %+v: column %d of level %d is %d tokens deep", steps, g, j, k, len(g.Path(nil, i)))
			}
		}
		at := -1
		for ok := true; ok; came++ {
			id := next(tokens[len(tokens)-1])
			tokens = append(tokens, id)
			at = g.Child(at, id)
			ok = at >= 0
		}
		var after []int32
		for _, id := range g.Tokens[first:] {
			after = append(after, next(id))
		}
		d.(Observer).Observe(7, after)
	}
	if t.Logf("%d tokens in %d steps", came, steps); 5*came < 6*steps {
		t.Errorf("%d tokens came in %d steps", came, steps)
	}
	d.Forget(7, tokens)
	if l := d.(*lookahead); len(l.of) != 0 {
		t.Errorf("%d sequences are still known", len(l.of))
	}
}

// TestLookaheadPool: of the n-grams with a first token the latest are kept, each once.
func TestLookaheadPool(t *testing.T) {
	o := LookaheadOptions{Window: 1, NGram: 3, Pool: 2}
	x := &window{pool: map[int32][][]int32{}}
	x.enter(o, []int32{1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2, 5})
	if want := [][]int32{{2, 3}, {2, 5}}; !slices.EqualFunc(x.pool[1], want, slices.Equal) {
		t.Errorf("%v; wanted %v", x.pool[1], want)
	}
	x.levels = [][]int32{{8}}
	x.tree(o, 1, 4)
	if want := (Draft{Tokens: []int32{2, 5, 3, 8}, Parents: []int{-1, 0, 0, -1}, Window: 1}); !slices.Equal(x.draft.Tokens, want.Tokens) || !slices.Equal(x.draft.Parents, want.Parents) || x.draft.Window != 1 {
		t.Errorf("%+v; wanted %+v", x.draft, want)
	}
	x.draft.Cut(3)
	if x.draft.Window != 0 || len(x.draft.Tokens) != 3 {
		t.Errorf("%+v after a cut", x.draft)
	}
}
