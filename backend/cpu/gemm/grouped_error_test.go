package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestGroupedError compares the error of grouped matmuls with that of each weight format itself, as root mean squares over the results:
// with normal numbers, with weights of heavy tails, and with activations of which every 512th is 50 times as large.
func TestGroupedError(t *testing.T) {
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
			for f := range packings {
				const k = 1024
				if packings[f].group <= 32 {
					continue // whose groups are Q8 blocks, or which has none
				}
				group := ScaleGroup(tier, f, k)
				if group == 0 {
					t.Skip("this tier has no grouped matmuls")
				}
				rng := rand.New(rand.NewPCG(9, 1))
				x, exact := randomActs(rng, minGroupedRows, k), randomActs(rng, 32, k)
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
				if ratio := groupedLoss(t, tier, f, x, exact, k); !(ratio <= most) {
					t.Errorf("%v: the error of a matmul is %.3f times that of its weights' format, want at most %g", f, ratio, most)
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

// groupedLoss is the error of a grouped matmul of x with exact weights in a format, against the numbers which the format kept, over
// the error of those against the exact ones.
func groupedLoss(t *testing.T, tier Tier, f quant.Format, x, exact []float32, k int) float64 {
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
	Mul(tier, out, n, pack(t, tier, tensor), 0, n, groupedActs(tier, x, m, k, ScaleGroup(tier, f, k)), 0, m, NewScratch())
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
