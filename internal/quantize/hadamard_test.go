package quantize

import (
	"math"
	"testing"
)

// TestHadamard: what turns vectors is orthogonal, and spreads a single number over all of its run.
func TestHadamard(t *testing.T) {
	for n, runs := range map[int]int{8: 1, 64: 1, 12: 1, 24: 1, 96: 1, 20: 1, 28: 1, 36: 1, 352: 1, 576: 1, 896: 1, 2560: 1, 5376: 1, 232: 29} {
		h, err := newHadamard(n)
		if err != nil {
			t.Fatal(err)
		}
		if h.runs != runs {
			t.Errorf("%d numbers are turned in %d runs, want %d", n, h.runs, runs)
		}
		scratch := make([]float64, n)
		turned := make([][]float64, min(n, 40))
		for i := range turned {
			turned[i] = make([]float64, n)
			turned[i][i] = 1
			h.turn(turned[i], scratch)
			for c, v := range turned[i] {
				if inRun := c/(n/runs) == i/(n/runs); inRun && math.Abs(math.Abs(v)-math.Sqrt(float64(runs)/float64(n))) > 1e-12 {
					t.Fatalf("%d numbers: number %d of unit vector %d becomes %g", n, c, i, v)
				}
			}
			for k, other := range turned[:i+1] {
				dot, want := 0.0, 0.0
				for c, v := range other {
					dot += v * turned[i][c]
				}
				if k == i {
					want = 1
				}
				if math.Abs(dot-want) > 1e-12 {
					t.Fatalf("%d numbers: unit vectors %d and %d have the product %g when they are turned", n, i, k, dot)
				}
			}
		}
	}
	for _, n := range []int{3, 7, 22} {
		if _, err := newHadamard(n); err == nil {
			t.Errorf("%d numbers are turned", n)
		}
	}
}
