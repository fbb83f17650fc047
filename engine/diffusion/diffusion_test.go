package diffusion_test

import (
	"math"
	"math/bits"
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
			got := b.Fix(&o, candidates, func(int, int) float64 { panic("nothing is random") })
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
		{diffusion.Options{Steps: math.MaxInt}, 3, 8, []int{1, 1, 1}, []int{0, 1, 2}},
		{diffusion.Options{Threshold: 0.6}, 8, 8, []int{4, 1, 1, 1, 1}, []int{0, 4, 1, 7, 2, 3, 6, 5}},
		{diffusion.Options{Threshold: 0.5, Steps: 2}, 8, 8, []int{6, 1, 1}, []int{0, 4, 1, 7, 2, 3, 6, 5}},
	} {
		if counts, order := fixed(c.o, c.length, c.answer, sure); !slices.Equal(counts, c.counts) || !slices.Equal(order, c.order) {
			t.Errorf("%+v, %d of %d: %v %v; %v %v wanted", c.o, c.length, c.answer, counts, order, c.counts, c.order)
		}
	}
}

// TestRandomOrder: which tokens a step fixes is distributed as upstream's programs draw them: at random places, as many as are due (LLaDA's random remasking); without replacement
// by the softmax of how sure the model is over alg_temp (Dream); each with a chance of its own, 1 - s/t (Dream's origin). By χ² of 20,000 blocks each.
func TestRandomOrder(t *testing.T) {
	const length, draws = 4, 20000
	sure := []float64{0.9, 0.5, 0.4, 0.1}
	r := rand.New(rand.NewPCG(7, 8))
	weights := func(temp float64) (w [length]float64) {
		for i, x := range sure {
			w[i] = math.Exp(x / temp)
		}
		return w
	}
	pairs := func(w [length]float64) map[int]float64 { // two of four, one after the other, as bits
		sum, chances := w[0]+w[1]+w[2]+w[3], map[int]float64{}
		for i := range w {
			for j := range w {
				if i != j {
					chances[1<<i|1<<j] += w[i] / sum * w[j] / (sum - w[i])
				}
			}
		}
		return chances
	}
	origin := map[int]float64{} // the first step of three that fixes any
	left := 1.0                 // chance that none of the steps before has
	for step := range 3 {
		at, end := 1-float64(step)*0.999/3, 1-float64(step+1)*0.999/3
		p := 1 - end/at
		if step == 2 {
			p = 1
		}
		for set := 1; set < 1<<length; set++ {
			n := float64(bits.OnesCount(uint(set)))
			origin[set] += left * math.Pow(p, n) * math.Pow(1-p, length-n)
		}
		left *= math.Pow(1-p, length)
	}
	for name, c := range map[string]struct {
		o    diffusion.Options
		want map[int]float64
	}{
		"random":          {diffusion.Options{Steps: 2, Algorithm: diffusion.Random}, pairs([length]float64{1, 1, 1, 1})},
		"alg_temp of 0.5": {diffusion.Options{Steps: 2, AlgTemp: 0.5}, pairs(weights(0.5))},
		"alg_temp of 0.1": {diffusion.Options{Steps: 2, AlgTemp: 0.1}, pairs(weights(0.1))},
		"origin":          {diffusion.Options{Steps: 3, Algorithm: diffusion.Origin}, origin},
	} {
		got := map[int]float64{}
		for range draws {
			var b diffusion.Block
			b.Begin(&c.o, length, length)
			var candidates []diffusion.Candidate
			for at, x := range sure {
				candidates = append(candidates, diffusion.Candidate{At: at, Sure: x})
			}
			set := 0
			for _, x := range b.Fix(&c.o, candidates, func(int, int) float64 { return r.Float64() }) {
				set |= 1 << x.At
			}
			got[set]++
		}
		chi, cells := 0.0, 0
		for set, p := range c.want {
			if p > 0 {
				want := p * draws
				chi, cells = chi+(got[set]-want)*(got[set]-want)/want, cells+1
			} else if got[set] > 0 {
				t.Errorf("%s: %b came, which is impossible", name, set)
			}
		}
		if limit := map[int]float64{6: 20.5, 15: 36.1}[cells]; chi > limit || limit == 0 { // a chance of 0.001
			t.Errorf("%s: χ² of %d cells is %.1f: %v; %v wanted", name, cells, chi, got, c.want)
		}
	}
}

// TestOriginEnds: every block is found whole in as many steps at most, also where the first token is forced, and a step has at least one token.
func TestOriginEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 2000 {
		o := diffusion.Options{Steps: 1 + r.IntN(12), Algorithm: diffusion.Origin}
		length := 1 + r.IntN(12)
		var b diffusion.Block
		b.Begin(&o, length, length)
		seed := r.Uint64()
		for n := 0; !b.Done(); n++ {
			var candidates []diffusion.Candidate
			for at := range length {
				if b.Masked(at) {
					candidates = append(candidates, diffusion.Candidate{At: at, Forced: at == 0 && n == 0})
				}
			}
			fixed := b.Fix(&o, candidates, func(step, at int) float64 { return rand.New(rand.NewPCG(seed, uint64(step*100+at))).Float64() })
			if len(fixed) == 0 || n == 0 && !slices.ContainsFunc(fixed, func(c diffusion.Candidate) bool { return c.At == 0 }) || b.Steps() > o.Steps {
				t.Fatalf("%+v, %d tokens: step %d of the block fixed %v", o, length, b.Steps(), fixed)
			}
		}
	}
}

// TestCheckGuidance: no scale of guidance is possible that makes numbers of a model overflow.
func TestCheckGuidance(t *testing.T) {
	for scale, ok := range map[float64]bool{0: true, 1.5: true, diffusion.MaxCFGScale: true, diffusion.MaxCFGScale + 1: false, 1e300: false, -1: false, math.Inf(1): false, math.NaN(): false} {
		if err := (&diffusion.Options{CFGScale: scale}).Check(); (err == nil) != ok {
			t.Errorf("%g: %v", scale, err)
		}
	}
}
