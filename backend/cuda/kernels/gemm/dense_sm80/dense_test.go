package densesm80

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "gemm/dense_sm80/gemm", map[string]uintptr{"gemm": unsafe.Sizeof(Params{})})
}

func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		kernel, err := Find(g.Loader, graph.BF16)
		g.Must(err)
		for _, c := range []struct{ m, n, k int }{{1, 1, 8}, {17, 50, 64}, {128, 128, 32}, {129, 257, 1000}, {300, 77, 136}, {64, 640, 2048}} {
			x, w, bias := g.Random(c.m*c.k, 1), g.Random(c.n*c.k, 1/math.Sqrt(float64(c.k))), g.Random(c.n, 1)
			var want []float64
			for i := range c.m {
				for j := range c.n {
					s := float64(bias[j])
					for e := range c.k {
						s += float64(x[i*c.k+e]) * float64(w[j*c.k+e])
					}
					want = append(want, s)
				}
			}
			p := &Params{X: g.BF16(x), W: g.BF16(w), Bias: g.F32(bias), Y: g.Poisoned(2 * c.m * c.n), M: int32(c.m), N: int32(c.n), K: int32(c.k)}
			g.Must(Launch(g.Stream, kernel, p))
			g.Near(fmt.Sprintf("%+v", c), g.ReadBF16(p.Y, len(want)), want, 6e-3)
		}
	})
}

// BenchmarkLinear is one shape of Llama-3.1-8B.
func BenchmarkLinear(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		kernel, err := Find(g.Loader, graph.BF16)
		g.Must(err)
		const n, k = 4096, 4096
		for _, m := range []int{32, 128, 512, 2048, 8192} {
			g.Scope(func() {
				var set []*Params
				for range 8 {
					set = append(set, &Params{X: g.Noise(2 * m * k), W: g.Noise(2 * n * k), Y: g.Poisoned(2 * m * n), M: int32(m), N: n, K: k})
				}
				d := g.Time(func(run int) error { return Launch(g.Stream, kernel, set[run%len(set)]) })
				fmt.Printf("tile %d × %d, m %5d  %9.1f µs  %6.1f TFLOP/s\n", n, k, m, d.Seconds()*1e6, 2*float64(m)*n*k/d.Seconds()/1e12)
			})
		}
	})
}
