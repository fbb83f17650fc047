package hiddenmodel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/engine/draft"
)

// branch is a branch of a tree by the formula: tokens, with the logarithm of their probability.
type branch struct {
	tokens []int32
	log    float64
}

// branches are those that the layer comes to see as EAGLE-2 grows a tree, by the formula, the likeliest first: of each depth the k likeliest are gone on from, no more of
// them in all than there are tokens.
func branches(tokens []int32, k, depth, most int, first func(int) []float64, newFormula func() func(int32, []float64, int) ([]float64, []float64)) (all []branch) {
	frontier, rows := []branch{{}}, 0
	for d := range depth {
		var seen []branch
		for _, b := range frontier {
			row := newFormula()
			var logits, next []float64
			for p := range len(tokens) - 1 {
				logits, next = row(tokens[p+1], first(p), p)
			}
			for i, id := range b.tokens {
				logits, next = row(id, next, len(tokens)-1+i)
			}
			ids := make([]int32, len(logits))
			sum := 0.0
			for i := range ids {
				ids[i] = int32(i)
				sum += math.Exp(logits[i])
			}
			slices.SortFunc(ids, func(a, b int32) int { return -compare(logits[a], logits[b]) })
			for _, id := range ids[:k] {
				seen = append(seen, branch{append(slices.Clone(b.tokens), id), b.log + logits[id] - math.Log(sum)})
			}
		}
		all = append(all, seen...)
		slices.SortStableFunc(seen, func(a, b branch) int { return -compare(a.log, b.log) })
		frontier = seen[:min(k, len(seen), most-rows)]
		if rows += len(frontier); d+1 < depth && len(frontier) == 0 {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b branch) int { return -compare(a.log, b.log) })
	return all
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// TestTrees: the trees that an MTP layer grows are those that the formula says, token by token and parent by parent, after steps of which none, some and all of the tokens
// before were accepted, branches that do not begin with the likeliest among them.
func TestTrees(t *testing.T) {
	for _, k := range []int{2, 4} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			r, files := newMTP(t, k)
			if b, ok := r.d.(draft.Branching); !ok || !b.Trees() {
				t.Fatal("its drafts are no trees")
			}
			newFormula := func() func(int32, []float64, int) ([]float64, []float64) {
				return (&formula{files: files, layer: "model.layers.2"}).mtp
			}
			random := rand.New(rand.NewPCG(9, 1))
			tokens := []int32{3, 14, 15, 9, 26, 5, 35, 8, 30}
			r.step(tokens, 0, 8, 8, tokens)
			for _, most := range []int{1, 5, 9, 3, 12} {
				q := []draft.Sequence{{ID: r.id, Salt: r.salt, Tokens: tokens, Max: most}}
				if err := r.d.Propose(q); err != nil {
					t.Fatal(err)
				}
				d := &q[0].Draft
				want := branches(tokens, k, depthOf(most), most, func(p int) []float64 { return r.states[0][p] }, newFormula)
				want = want[:min(most, len(want))]
				if len(d.Tokens) != len(want) {
					t.Fatalf("a tree of %d tokens of %d", len(d.Tokens), len(want))
				}
				for i := range want {
					if got := d.Path(nil, i); !slices.Equal(got, want[i].tokens) {
						t.Errorf("of %d tokens number %d is the end of %v, and of %v by the formula", most, i, got, want[i].tokens)
					}
				}
				at := len(tokens) - 1
				tokens = append(slices.Clone(tokens), int32(random.IntN(vocab)))
				r.step(tokens, at, 1, 1, tokens)
			}
		})
	}
}

// TestTreesRefused: trees beyond the bound are refused.
func TestTreesRefused(t *testing.T) {
	for _, n := range []int{-1, 17} {
		if _, err := New(Model{Branch: n}); err == nil {
			t.Errorf("trees of %d tokens after one were taken", n)
		}
	}
}
