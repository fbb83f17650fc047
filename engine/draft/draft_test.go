package draft

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNGram: the draft is what followed the longest match of the text's end, of equal ones the last, however the text grew.
func TestNGram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := NGramOptions{Min: rapid.IntRange(1, 3).Draw(t, "min")}
		o.Max = o.Min + rapid.IntRange(0, 3).Draw(t, "more")
		d, err := NewNGram(o)
		if err != nil {
			t.Fatal(err)
		}
		for id := range int64(2) {
			var text []int32
			for range rapid.IntRange(1, 12).Draw(t, "steps") {
				text = append(text, rapid.SliceOfN(rapid.Int32Range(0, 3), 1, 6).Draw(t, "tokens")...)
				seqs := []Sequence{{ID: id, Tokens: text, Max: rapid.IntRange(1, 5).Draw(t, "tokens drafted")}}
				if err := d.Propose(seqs); err != nil {
					t.Fatal(err)
				}
				if want := lookUp(text, o.Min, o.Max, seqs[0].Max); !slices.Equal(seqs[0].Draft.Tokens, want) {
					t.Fatalf("after %v comes %v, want %v", text, seqs[0].Draft.Tokens, want)
				}
			}
			d.Forget(id, text)
		}
	})
}

// lookUp is prompt lookup by trying all places, as many as the drafter looks at.
func lookUp(text []int32, least, most, n int) []int32 {
	best, length, tried := 0, least-1, 0
	for end := len(text) - 1; end >= least && len(text) >= least; end-- {
		l := common(text[:end], text, most)
		if l < least {
			continue
		}
		if tried++; tried > mostPlaces {
			break
		}
		if l > length {
			best, length = end, l
		}
	}
	if best == 0 {
		return nil
	}
	return text[best:min(best+n, len(text))]
}

// TestPlan: as many tokens are drafted as bring most a second: all where a row costs nothing, none where it costs as much as a step does or
// what is drafted is seldom right.
func TestPlan(t *testing.T) {
	estimate := func(accepted float64) *Acceptance {
		a := &Acceptance{}
		for i := range a.tried {
			a.tried[i], a.accepted[i] = 1e6, accepted*1e6
		}
		return a
	}
	for _, c := range []struct {
		what           string
		chance, perRow float64 // a step of none takes 1
		seqs, want     int
	}{
		{"rows for nothing", 0.8, 0, 1, 8},
		{"rows for nothing", 0.8, 0, 16, 8},
		{"a row costs a step", 0.8, 1, 1, 0},
		{"a row costs a fifth", 0.8, 0.2, 1, 4},
		{"seldom right", 0.05, 0.1, 4, 0},
	} {
		all := make([]Candidate, c.seqs)
		for i := range all {
			all[i] = Candidate{Acceptance: estimate(c.chance), Max: 8, Context: 100}
		}
		Plan(all, c.seqs, 1000, 0, 0.02, func(x Extra) float64 { return 1 + c.perRow*float64(x.Tokens) })
		for i := range all {
			if all[i].Tokens != c.want {
				t.Errorf("%s, %d sequences: %d tokens are drafted, %d should be", c.what, c.seqs, all[i].Tokens, c.want)
			}
		}
	}
	all := []Candidate{{Acceptance: estimate(0.9), Max: 8}, {Acceptance: estimate(0.1), Max: 8}}
	Plan(all, 2, 9, 0, 0.02, func(x Extra) float64 { return 1 + 0.15*float64(x.Tokens) })
	if all[0].Tokens == 0 || all[1].Tokens != 0 {
		t.Errorf("%d and %d tokens are drafted; only the first sequence's are worth it", all[0].Tokens, all[1].Tokens)
	}
	// A step that takes long in any case: a token of a draft comes for 0.1 s, where others come at 4 a second, and then at 12.
	beside := func(x Extra) float64 { return 10 + 0.1*float64(x.Tokens) }
	if gain := Plan(all, 2, 9, 4, 0.02, beside); gain <= 1 || all[0].Tokens+all[1].Tokens == 0 {
		t.Errorf("drafts that bring tokens faster than they usually come: %d and %d tokens, gain %g", all[0].Tokens, all[1].Tokens, gain)
	}
	if gain := Plan(all, 2, 9, 12, 0.02, beside); gain != 1 || all[0].Tokens+all[1].Tokens != 0 {
		t.Errorf("drafts that bring tokens more slowly than they usually come: %d and %d tokens, gain %g", all[0].Tokens, all[1].Tokens, gain)
	}
	Plan(all, 2, 9, 0, 0.02, func(Extra) float64 { return 0 })
	if all[0].Tokens != 0 {
		t.Error("drafts without a price")
	}
}

// TestAcceptance: estimates come to what is observed, those of a sequence begin with what all have, and what keeps from drafting is forgotten.
func TestAcceptance(t *testing.T) {
	all := &Acceptance{}
	one := &Acceptance{Of: all}
	for range 400 {
		one.Observe(4, 2)
	}
	for i, want := range []float64{1, 1, 0, 0.6} {
		if got := one.At(i); math.Abs(got-want) > 0.05 {
			t.Errorf("token %d is accepted with %.2f, want %.2f", i, got, want)
		}
	}
	if fresh := (&Acceptance{Of: all}); math.Abs(fresh.At(2)-all.At(2)) > 1e-9 || all.At(2) > 0.05 {
		t.Errorf("a new sequence has %.2f, all have %.2f", fresh.At(2), all.At(2))
	}
	for range 3000 {
		all.Wait(1)
		one.Wait(1)
	}
	if one.At(2) < 0.4 {
		t.Errorf("after thousands of steps without a draft %.2f is believed", one.At(2))
	}
}

// TestTree: children, branches and their depth.
func TestTree(t *testing.T) {
	d := Draft{Tokens: []int32{5, 6, 7, 6}, Parents: []int{-1, 0, -1, 2}}
	if d.Chain() || d.Depth() != 2 || d.Child(-1, 7) != 2 || d.Child(2, 6) != 3 || d.Child(1, 6) != -1 || !slices.Equal(d.Path(nil, 3), []int32{7, 6}) {
		t.Errorf("%+v: chain %t, depth %d, path %v", d, d.Chain(), d.Depth(), d.Path(nil, 3))
	}
	d.Cut(2)
	if !d.Chain() || d.Depth() != 2 {
		t.Errorf("%+v is a chain of 2", d)
	}
}

// TestNGramIndex: whatever grams share a chain, and however often the index has grown or was used for another text before, what follows the last place with the longest match is found.
func TestNGramIndex(t *testing.T) {
	const least, most = 2, 5
	random := rand.New(rand.NewPCG(1, 1))
	x := &ngramIndex{}
	for _, length := range []int{3, 700, 40, 3000, 5} {
		x.reset()
		var tokens []int32
		for range length {
			tokens = append(tokens, int32(random.IntN(60)))
			x.extend(tokens, least)
			want, longest := 0, least-1
			for at, seen := len(tokens)-1, 0; at > 0 && seen < mostPlaces && longest < most; at-- {
				if l := common(tokens[:at], tokens, most); l >= least {
					if seen++; l > longest {
						want, longest = at, l
					}
				}
			}
			if got := x.find(tokens, least, most); len(tokens) >= least && got != want && common(tokens[:got], tokens, most) < longest {
				t.Fatalf("after %d tokens the text goes on at %d; at %d %d tokens are the same", len(tokens), got, want, longest)
			}
		}
	}
}
