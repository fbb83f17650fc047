package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/quant"
)

// BenchmarkMul multiplies with weights that rotate through 256 MiB, as the layers of a model do. It reports Gop/s and
// GB/s of weights, and what fraction they are of the peaks measured just before: of the integer or float peak ("compute")
// and of the read bandwidth ("read").
func BenchmarkMul(b *testing.B) {
	const n, k = 2048, 2048
	for _, tier := range Tiers() {
		if tier == Generic {
			continue
		}
		for _, f := range []quant.Format{quant.Q8_0, quant.Q4_0, quant.Q4_K, quant.Q6_K, quant.Q5_0, quant.Q3_K, quant.BF16, quant.F32} {
			tensor := randomTensor(rand.New(rand.NewPCG(1, 1)), f, n, k)
			size := int(f.RowBytes(k) * n)
			arena := make([]byte, (256<<20)/size*size)
			var weights []*Weights
			for rest := arena; len(rest) > 0; rest = rest[size:] {
				copy(rest, tensor.Data)
				if PackedBytes(f, n, k) > 0 {
					Pack(tier, rest[:size], tensor, 0, n)
				}
				w, err := Packed(f, n, k, rest[:size])
				if err != nil {
					b.Fatal(err)
				}
				weights = append(weights, &w)
			}
			for _, m := range []int{1, 2, 4, 8, 16, 32, 64, 512} {
				b.Run(fmt.Sprintf("%v/%v/%d", tier, f, m), func(b *testing.B) { benchmarkMul(b, tier, weights, arena, m, 0) })
				if group := ScaleGroup(tier, f, k); group > 0 && Grouped(tier, m) {
					b.Run(fmt.Sprintf("%v/%v/%d/grouped", tier, f, m), func(b *testing.B) { benchmarkMul(b, tier, weights, arena, m, group) })
				}
			}
		}
	}
}

func benchmarkMul(b *testing.B, tier Tier, weights []*Weights, arena []byte, m, group int) {
	w := weights[0]
	format := ActFormatOf(tier, w.Format)
	x := randomActs(rand.New(rand.NewPCG(2, 2)), m, w.Cols)
	acts := fillActs(tier, format, x, m, w.Cols)
	if format == Q8 {
		*acts = TiledActs(tier, make([]byte, ActBytes(Q8, m, w.Cols)), m, w.Cols)
		if group > 0 {
			*acts = GroupedActs(tier, make([]byte, ActBytes(Q8, m, w.Cols)), m, w.Cols, group)
		}
		acts.Fill(tier, x, 0, m)
	}
	out, s := make([]float32, m*w.Rows), NewScratch()
	ops, read := Peak(tier, format, 5*time.Millisecond), PeakRead(tier, arena)
	i := 0
	for b.Loop() {
		Mul(tier, out, w.Rows, weights[i%len(weights)], 0, w.Rows, acts, 0, m, s)
		i++
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	gops := 2 * float64(m*w.Rows*w.Cols) / seconds
	bytes := float64(len(w.data)) / seconds
	b.ReportMetric(gops/1e9, "Gop/s")
	b.ReportMetric(gops/ops, "compute")
	b.ReportMetric(bytes/1e9, "GB/s")
	b.ReportMetric(bytes/read, "read")
}

// BenchmarkPack interleaves a matrix of a 1B model, as loading does.
func BenchmarkPack(b *testing.B) {
	const n, k = 2048, 2048
	for _, f := range quant.Formats() {
		if PackedBytes(f, n, k) == 0 {
			continue
		}
		tensor := randomTensor(rand.New(rand.NewPCG(1, 1)), f, n, k)
		dst := make([]byte, PackedBytes(f, n, k))
		b.Run(f.String(), func(b *testing.B) {
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				Pack(Tiers()[0], dst, tensor, 0, n)
			}
		})
	}
}

// BenchmarkQuantizeQ8 quantises a row of activations.
func BenchmarkQuantizeQ8(b *testing.B) {
	const k = 2048
	x := randomActs(rand.New(rand.NewPCG(1, 1)), 1, k)
	a := NewActs(Q8, make([]byte, ActBytes(Q8, 1, k)), 1, k)
	b.SetBytes(4 * k)
	for b.Loop() {
		a.Fill(Tiers()[0], x, 0, 1)
	}
}
