package sample

import (
	"math"
	"slices"
	"testing"
)

// TestDry: the probabilities that llama.cpp's own tests want (tests/test-sampling.cpp), of equal logits, and a few that follow from the description.
func TestDry(t *testing.T) {
	uniform := func(n int) []float64 { return slices.Repeat([]float64{1 / float64(n)}, n) }
	for _, c := range []struct {
		what       string
		want       []float64
		last       []int32
		multiplier float64
		allowed, n int
		breakers   [][]int32
	}{
		{"nothing repeats", uniform(4), []int32{0, 1}, 1, 2, 4, nil},
		{"two tokens repeat", []float64{0.296923, 0.296923, 0.109232, 0.296923}, []int32{0, 1, 2, 0, 1}, 1, 2, 5, nil},
		{"a breaker lies between", uniform(5), []int32{0, 1, 3, 4, 0, 1}, 1, 2, 6, [][]int32{{3}}},
		{"twice the multiplier", []float64{0.241818, 0.241818, 0.032727, 0.241818, 0.241818}, []int32{0, 1, 2, 0, 1}, 2, 2, 5, nil},
		{"fewer than are allowed", uniform(5), []int32{0, 1, 2, 3, 4, 0, 1}, 1, 4, 7, nil},
		{"the window is too short", uniform(4), []int32{0, 1, 2, 0, 1}, 1, 2, 4, nil},
		{"a breaker of two tokens", uniform(4), []int32{0, 1, 2, 0, 1}, 1, 2, -1, [][]int32{{0, 1}}},
		{"a breaker that is not there whole", []float64{0.296923, 0.296923, 0.109232, 0.296923}, []int32{0, 1, 2, 0, 1}, 1, 2, -1, [][]int32{{1, 3}}},
		{"it is off", uniform(4), []int32{0, 1, 2, 0, 1}, 1, 2, 0, nil},
	} {
		p := Default()
		p.DryMultiplier, p.DryBase, p.DryAllowedLength, p.DryWindow, p.DryBreakers, p.Logprobs = c.multiplier, 1.1, c.allowed, c.n, NewBreakers(c.breakers), true
		for whole := range 2 { // the tokens are the prompt, or the answer
			prompt, answer := c.last, []int32(nil)
			if whole == 1 {
				prompt, answer = nil, c.last
			}
			st, err := NewState(p, len(c.want), prompt)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range answer[:max(0, len(answer)-1)] {
				st.Observe(id)
			}
			if len(answer) > 0 {
				st = st.After(answer[len(answer)-1:]) // as with a draft
			}
			row := make([]float32, len(c.want))
			var s Sampler
			if _, err := s.Sample(row, st, nil); err != nil {
				t.Fatal(err)
			}
			var mass float64
			for _, x := range row {
				mass += math.Exp(float64(x))
			}
			for id, want := range c.want {
				if got := math.Exp(float64(row[id])) / mass; math.Abs(got-want) > 1e-5 {
					t.Errorf("%s: token %d has the probability %v, want %v", c.what, id, got, want)
				}
			}
		}
	}
}

// TestDryLong: a repetition of any length has a penalty that is a number, and a window of a few tokens keeps few.
func TestDryLong(t *testing.T) {
	p := Default()
	p.DryMultiplier, p.DryBase = 1, 100
	st, err := NewState(p, 3, slices.Repeat([]int32{1}, 5000))
	if err != nil {
		t.Fatal(err)
	}
	var s Sampler
	if c, err := s.Sample([]float32{0, 50, -5}, st, nil); err != nil || c.Token == 1 {
		t.Errorf("token %d, %v; token 1 was repeated 5000 times", c.Token, err)
	}
	p.DryWindow = 8
	if st, err = NewState(p, 3, slices.Repeat([]int32{1}, 5000)); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		st.Observe(1)
	}
	if n := len(st.repeats.tokens); n > 100 {
		t.Errorf("%d tokens are kept for a window of 8", n)
	}
	if n := testing.AllocsPerRun(100, func() { st.repeats.found(2, nil) }); n > 0 {
		t.Errorf("%v allocations a token", n)
	}
}
