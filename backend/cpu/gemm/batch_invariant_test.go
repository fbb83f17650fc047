package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestBatchInvariant: float weights give a row of activations the same bits in a batch as alone, where that is asked for.
func TestBatchInvariant(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		for _, f := range []quant.Format{quant.F32, quant.F16, quant.BF16} {
			for _, size := range [][3]int{{mcInvariant + 5, 67, 257}, {23, 32, 96}, {5, 3, 7}} {
				m, n, k := size[0], size[1], size[2]
				t.Run(fmt.Sprintf("%v/%d×%d×%d", f, m, n, k), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(9, uint64(k)))
					w, x := pack(t, tier, randomTensor(rng, f, n, k)), randomActs(rng, m, k)
					acts := FloatActs(x, m, k)
					acts.BatchInvariant = true
					together, alone, s := make([]float32, m*n), make([]float32, n), NewScratch()
					Mul(tier, together, n, w, 0, n, &acts, 0, m, s)
					for r := range m {
						one := FloatActs(x[r*k:], 1, k)
						Mul(tier, alone, n, w, 0, n, &one, 0, 1, s)
						for i := range n {
							if together[r*n+i] != alone[i] {
								t.Fatalf("row %d, feature %d is %g among %d rows and %g alone", r, i, together[r*n+i], m, alone[i])
							}
						}
					}
				})
			}
		}
	})
}
