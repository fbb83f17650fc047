package w8a8

import (
	"fmt"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/skinny"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// layers is the shapes of Llama-3.1-8B: parts of n rows of k.
var layers = []struct {
	name  string
	k     int
	n     []int
	gated bool
}{
	{"qkv", 4096, []int{4096, 1024, 1024}, false}, {"o", 4096, []int{4096}, false},
	{"gate-up", 4096, []int{28672}, true}, {"down", 14336, []int{4096}, false},
}

// BenchmarkLinear multiplies random codes, weights rotating through more than the L2 cache: up to 8 rows by skinny's kernels, more by
// gemm's.
func BenchmarkLinear(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		sums := g.Poisoned(int(densesm90.PartialBytes(g.Loader.SMs(), 8192)))
		for _, l := range layers {
			total := 0
			for _, n := range l.n {
				total += n
			}
			copies := max(1, 256<<20/(total*l.k)+1)
			for _, m := range []int{1, 8, 16, 64, 256, 2048, 8192} {
				for _, t := range types {
					g.Scope(func() {
						var set []func() error
						for range copies {
							set = append(set, launch(g, t, m, l.k, l.n, l.gated, sums))
						}
						d := g.Time(func(run int) error { return set[run%copies]() })
						bytes, flops := float64(total)*float64(l.k)+float64(m)*float64(l.k+2*total), 2*float64(m)*float64(total)*float64(l.k)
						fmt.Printf("%s %-8s m %5d  %9.1f µs  %6.2f TB/s  %7.1f TFLOP/s\n", t, l.name, m, d.Seconds()*1e6, bytes/d.Seconds()/1e12, flops/d.Seconds()/1e12)
					})
				}
			}
		}
	})
}

// launch is a product of fresh random matrices. A gated one has n rows of gate and up together.
func launch(g *gputest.GPU, t graph.Type, m, k int, parts []int, gated bool, sums driver.Ptr) func() error {
	x, xScale := codes(g, t, m*k), g.F32(g.Random(m+m%2, 1))
	wide := densesm90.Problem{Type: t, X: x, XScale: xScale, Rows: m, K: k, Gated: gated}
	few := &skinny.Params{X: x, XScale: xScale, M: int32(m), K: int32(kernels.Pairs(t, k)), Parts: int32(len(parts))}
	for i, rows := range parts {
		n := rows
		if gated {
			n /= 2
		}
		w := densesm90.Weight{W: codes(g, t, rows*k), Scale: g.F32(g.Random(n, 1)), Y: g.Poisoned(2 * m * n), N: n}
		if gated {
			w.Scale2 = g.F32(g.Random(n, 1))
			few.Part[1].Scale = w.Scale2
		}
		wide.Weights = append(wide.Weights, w)
		few.Part[i].W, few.Part[i].Scale, few.Part[i].Y, few.Part[i].N = w.W, w.Scale, w.Y, int32(n)
	}
	if m <= 8 {
		s, err := skinny.New(g.Loader, t, gated)
		g.Must(err)
		return func() error { return s.Launch(g.Stream, few) }
	}
	w, err := densesm90.New(g.Loader, wide, sums)
	g.Must(err)
	return func() error { return w.Launch(g.Stream, m) }
}

// blocks is a few million random codes of normal numbers, of each type.
var blocks = map[graph.Type][]byte{}

// codes is n random codes.
func codes(g *gputest.GPU, t graph.Type, n int) driver.Ptr {
	if blocks[t] == nil {
		blocks[t] = make([]byte, 4<<20)
		for i := range blocks[t] {
			blocks[t][i] = code(t, max(-top(t), min(top(t), float32(g.Rand.NormFloat64())*top(t)/4)))
		}
	}
	block, p := blocks[t], g.Poisoned(n)
	for at := 0; at < n; at += len(block) {
		g.Must(g.Stream.Upload(p+driver.Ptr(at), block[:min(len(block), n-at)]))
	}
	g.Must(g.Stream.Synchronize())
	return p
}

// BenchmarkError prints how far products are off, beside exact sums of the same codes: what the tensor cores lose in their sums.
func BenchmarkError(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		sums := g.Poisoned(int(densesm90.PartialBytes(g.Loader.SMs(), densesm90.MaxRows)))
		for _, t := range types {
			for _, k := range []int{1024, 4096, 14336} {
				p := newProblem(g, t, shape{m: 64, k: k, n: []int{256}})
				w, err := densesm90.New(g.Loader, p.wide(), sums)
				g.Must(err)
				g.Must(w.Launch(g.Stream, p.m))
				var diff, norm float64
				for i, got := range g.ReadBF16(p.y[0], len(p.want[0])) {
					d := float64(got) - p.want[0][i]
					diff, norm = diff+d*d, norm+p.want[0][i]*p.want[0][i]
				}
				fmt.Printf("%s k %5d: relative error %.2g, of which rounding to bf16 is 0.0017\n", t, k, math.Sqrt(diff/norm))
			}
		}
	})
}
