package gemm

import (
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestQ8BatchInvariant multiplies many rows of activations at once, by tile and batch kernels, and one row at a time, by dot
// kernels: every bit must be the same. The sizes have whole tiles and a rest, whole K-blocks and a rest, several passes over the rows,
// and a last panel that NR does not divide.
func TestQ8BatchInvariant(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		if tier == Generic {
			t.Skip("plain Go would take half a minute")
		}
		for f := range packings {
			t.Run(f.String(), func(t *testing.T) {
				testBatchInvariance(t, tier, f, 6*mr+5, 5*NR+3, 4*kc)
				for m := minBatchRows; m <= streamRows; m += 1 + m/14 {
					testBatchInvariance(t, tier, f, m, 2*NR+1, kc+256)
				}
				testBatchInvariance(t, tier, f, mc+2*mr+1, NR+5, kc+256)
			})
		}
	})
}

func testBatchInvariance(t *testing.T, tier Tier, f quant.Format, m, n, k int) {
	rng := rand.New(rand.NewPCG(6, uint64(f)))
	w, x := pack(t, tier, randomTensor(rng, f, n, k)), randomActs(rng, m, k)
	acts := fillActs(tier, Q8, x, m, k)
	together, alone, s := make([]float32, m*n), make([]float32, m*n), NewScratch()
	for i := range together {
		together[i], alone[i] = 3, 3
	}
	Mul(tier, together, n, w, 0, n, invariantActs(tier, f, x, m, k), 0, m, s)
	for r := 0; r < m; r += 1 + m/20 {
		Mul(tier, alone, n, w, 0, n, acts, r, r+1, s)
		for i := range n {
			if at := r*n + i; together[at] != alone[at] {
				t.Fatalf("%d × %d: row %d, feature %d is %g among %d rows and %g alone", n, k, r, i, together[at], m, alone[at])
			}
		}
	}
}

// invariantActs lays many rows out as a device does that has to keep their bits.
func invariantActs(tier Tier, f quant.Format, x []float32, m, k int) *Acts {
	a := TiledActs(tier, make([]byte, ActBytes(Q8, m, k)), m, k)
	if ScaleGroup(tier, f, k) == 32 && Grouped(tier, m) {
		a = GroupedActs(tier, make([]byte, ActBytes(Q8, m, k)), m, k, 32)
	}
	a.Fill(tier, x, 0, m)
	return &a
}
