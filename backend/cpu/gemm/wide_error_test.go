package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestWideError compares what wide products lose with what each format has lost already, as root mean squares over the results:
// with normal numbers, with weights of heavy tails, and with activations of which every 512th is 50 times as large.
func TestWideError(t *testing.T) {
	tier := Tiers()[0]
	for _, data := range []struct {
		name     string
		tails    bool
		outliers float32
		few, all float64 // at most, for formats of up to four bits and for all
	}{
		{"normal", false, 1, 0.15, 0.6}, {"heavy tails", true, 1, 0.2, 0.6}, {"outliers", true, 50, 0.4, 1.1},
	} {
		t.Run(data.name, func(t *testing.T) {
			for f := range wideGroups {
				const k = 1024
				group := WideGroup(tier, f, k)
				if group == 0 {
					t.Skip("this tier has no wide products")
				}
				if f == quant.Q8_0 {
					continue // which has the products of lines
				}
				rng := rand.New(rand.NewPCG(9, 1))
				x, exact := randomActs(rng, leastWide, k), randomActs(rng, 32, k)
				for i := 77; i < len(x); i += 512 {
					x[i] *= data.outliers
				}
				if data.tails {
					heavyTails(rng, exact)
				}
				most := data.all
				if group == 128 {
					most = data.few
				}
				if ratio := wideLoss(t, tier, f, x, exact, k); !(ratio <= most) {
					t.Errorf("%v: a product loses %.3f times what its weights had lost; at most %g is right", f, ratio, most)
				}
			}
		})
	}
}

// heavyTails makes normal numbers into Student's t of four degrees of freedom.
func heavyTails(rng *rand.Rand, x []float32) {
	for i := range x {
		square := 0.0
		for range 4 {
			square += math.Pow(rng.NormFloat64(), 2)
		}
		x[i] /= float32(math.Sqrt(square / 4))
	}
}

// wideLoss is how far a wide product of x and exact weights in a format is from that of the numbers which the format kept, over how far
// that is from the exact one.
func wideLoss(t *testing.T, tier Tier, f quant.Format, x, exact []float32, k int) float64 {
	m, n := len(x)/k, len(exact)/k
	tensor := quant.Tensor{Format: f, Rows: n, Cols: k, Data: make([]byte, int64(n)*f.RowBytes(k))}
	kept := make([]float32, n*k)
	for r := range n {
		if err := quant.Encode(f, tensor.Row(r), exact[r*k:(r+1)*k]); err != nil {
			t.Fatal(err)
		}
		quant.Decode(f, kept[r*k:(r+1)*k], tensor.Row(r))
	}
	out := make([]float32, m*n)
	Mul(tier, out, n, pack(t, tier, tensor), 0, n, wideActs(tier, x, m, k, WideGroup(tier, f, k)), 0, m, NewScratch())
	var own, added float64
	for i, got := range out {
		var with, without float64
		for j, v := range x[i/n*k : (i/n+1)*k] {
			with += float64(v) * float64(kept[i%n*k+j])
			without += float64(v) * float64(exact[i%n*k+j])
		}
		own += math.Pow(with-without, 2)
		added += math.Pow(float64(got)-with, 2)
	}
	return math.Sqrt(added / own)
}
