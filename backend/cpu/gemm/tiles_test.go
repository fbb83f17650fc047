package gemm

import (
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestBitsInCompany multiplies many rows of activations at once, by tile and batch kernels, and one row at a time, by dot
// kernels: not a bit may differ. The sizes have whole tiles and a rest, whole chunks and a rest, several passes over the rows, and a
// last unit that Granule does not divide.
func TestBitsInCompany(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		if tier == Generic {
			t.Skip("plain Go would take half a minute")
		}
		for f := range packings {
			t.Run(f.String(), func(t *testing.T) {
				testCompany(t, tier, f, 6*tileRows+5, 5*Granule+3, 4*panelK)
				for m := leastBatch; m <= streamRows; m += 1 + m/14 {
					testCompany(t, tier, f, m, 2*Granule+1, panelK+256)
				}
				testCompany(t, tier, f, passRows+2*tileRows+1, Granule+5, panelK+256)
			})
		}
	})
}

func testCompany(t *testing.T, tier Tier, f quant.Format, m, n, k int) {
	rng := rand.New(rand.NewPCG(6, uint64(f)))
	w, x := pack(t, tier, randomTensor(rng, f, n, k)), randomActs(rng, m, k)
	acts := fillActs(tier, Lines, x, m, k)
	together, alone, s := make([]float32, m*n), make([]float32, m*n), NewScratch()
	for i := range together {
		together[i], alone[i] = 3, 3
	}
	Mul(tier, together, n, w, 0, n, companyActs(tier, f, x, m, k), 0, m, s)
	for r := 0; r < m; r += 1 + m/20 {
		Mul(tier, alone, n, w, 0, n, acts, r, r+1, s)
		for i := range n {
			if at := r*n + i; together[at] != alone[at] {
				t.Fatalf("%d × %d: row %d, feature %d is %g among %d rows and %g alone", n, k, r, i, together[at], m, alone[at])
			}
		}
	}
}

// companyActs lays many rows out as a device would that is to keep their bits.
func companyActs(tier Tier, f quant.Format, x []float32, m, k int) *Acts {
	a := TiledActs(tier, make([]byte, ActBytes(Lines, m, k)), m, k)
	if WideGroup(tier, f, k) == 32 && Wide(m) {
		a = WideActs(make([]byte, ActBytes(Lines, m, k)), m, k, 32)
	}
	a.Fill(tier, x, 0, m)
	return &a
}
