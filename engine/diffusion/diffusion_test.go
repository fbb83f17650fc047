package diffusion_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/engine/diffusion"
)

// TestSure: the numbers are those of the softmax, written out.
func TestSure(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		logits, p, sum := make([]float32, 2+r.IntN(40)), []float64{}, 0.0
		for i := range logits {
			logits[i] = float32(r.NormFloat64() * 6)
			sum += math.Exp(float64(logits[i]))
		}
		entropy := 0.0
		for _, x := range logits {
			q := math.Exp(float64(x)) / sum
			p = append(p, q)
			entropy -= q * math.Log(q)
		}
		token := r.IntN(len(p))
		sorted := slices.Sorted(slices.Values(p))
		slices.Reverse(sorted)
		for algorithm, want := range map[diffusion.Algorithm]float64{
			"": p[token], diffusion.Confidence: p[token], "maskgit_plus": p[token], diffusion.Margin: sorted[0] - sorted[1], diffusion.Entropy: -entropy,
		} {
			o := diffusion.Options{Algorithm: algorithm}
			if got := o.Sure(logits, int32(token)); math.Abs(got-want) > 1e-9 {
				t.Fatalf("%s of token %d of %v is %v; %v wanted", algorithm, token, logits, got, want)
			}
		}
	}
	o := diffusion.Options{}
	if got := o.Sure([]float32{float32(math.NaN()), 1, float32(math.Inf(-1))}, 1); got != 1 {
		t.Errorf("beside NaN and −Inf: %v", got)
	}
}

// TestFix: every block is found whole; by steps as many at once as they divide it into, the first ones one more; by a threshold those above it and the surest.
func TestFix(t *testing.T) {
	fixed := func(o diffusion.Options, length, answer int, sure []float64) (counts []int, order []int) {
		var b diffusion.Block
		b.Begin(&o, length, answer)
		for !b.Done() {
			var candidates []diffusion.Candidate
			for at := range length {
				if b.Masked(at) {
					candidates = append(candidates, diffusion.Candidate{At: at, Sure: sure[at], Forced: at == 0 && b.Steps() == 0})
				}
			}
			got := b.Fix(&o, candidates)
			counts = append(counts, len(got))
			for _, c := range got {
				order = append(order, c.At)
			}
		}
		return counts, order
	}
	sure := []float64{0.1, 0.9, 0.5, 0.5, 0.95, 0.2, 0.3, 0.7}
	for _, c := range []struct {
		o              diffusion.Options
		length, answer int
		counts, order  []int
	}{
		{diffusion.Options{}, 8, 8, []int{1, 1, 1, 1, 1, 1, 1, 1}, []int{0, 4, 1, 7, 2, 3, 6, 5}},
		{diffusion.Options{Steps: 12}, 8, 32, []int{3, 3, 2}, []int{0, 4, 1, 7, 2, 3, 6, 5}},
		{diffusion.Options{Steps: 1}, 8, 32, []int{8}, []int{0, 4, 1, 7, 2, 3, 6, 5}},
		{diffusion.Options{Steps: 1000}, 3, 8, []int{1, 1, 1}, []int{0, 1, 2}},
		{diffusion.Options{Threshold: 0.6}, 8, 8, []int{4, 1, 1, 1, 1}, []int{0, 4, 1, 7, 2, 3, 6, 5}},
		{diffusion.Options{Threshold: 0.5, Steps: 2}, 8, 8, []int{6, 1, 1}, []int{0, 4, 1, 7, 2, 3, 6, 5}},
	} {
		if counts, order := fixed(c.o, c.length, c.answer, sure); !slices.Equal(counts, c.counts) || !slices.Equal(order, c.order) {
			t.Errorf("%+v, %d of %d: %v %v; %v %v wanted", c.o, c.length, c.answer, counts, order, c.counts, c.order)
		}
	}
}
