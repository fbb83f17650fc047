package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

func TestDotBF16(t *testing.T) {
	each(t, func(t *testing.T, o Ops, n int, array func() []float32) {
		x, z := array(), array()
		y := make([]uint16, n)
		sum, magnitude := 0.0, 0.0
		for i, v := range z {
			y[i] = quant.F32ToBF16(v)
			p := float64(x[i]) * float64(quant.BF16ToF32(y[i]))
			sum, magnitude = sum+p, magnitude+math.Abs(p)
		}
		if got := float64(o.DotBF16(x, y)); math.Abs(got-sum) > 1e-6*magnitude {
			t.Fatalf("DotBF16 of %d: %g, %g is right", n, got, sum)
		}
	})
}

func TestAddPanels(t *testing.T) {
	for _, tier := range gemm.Tiers() {
		o, rnd := For(tier), rand.New(rand.NewPCG(1, 2))
		for _, rank := range []int{1, 2, 8, 16, 17, 64} {
			for _, panels := range []int{1, 2, 7} {
				n := panels * PanelColumns
				y, want, b, h := make([]float32, n+1), make([]float64, n), make([]uint16, n*rank), make([]float32, rank)
				for r := range h {
					h[r] = float32(rnd.NormFloat64())
				}
				for i := range b {
					b[i] = quant.F32ToBF16(float32(rnd.NormFloat64()))
				}
				for i := range want {
					y[i] = float32(rnd.NormFloat64())
					want[i] = float64(y[i])
					for r, f := range h {
						want[i] += float64(f) * float64(quant.BF16ToF32(b[(i/PanelColumns*rank+r)*PanelColumns+i%PanelColumns]))
					}
				}
				y[n] = guard
				o.AddPanels(y[:n], b, h)
				check(t, "AddPanels "+tier.String(), y[:n], func(i int) float64 { return want[i] }, 1e-5)
			}
		}
	}
}
