package densesimt

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "gemm/dense_simt/gemm", map[string]uintptr{"gemm_": unsafe.Sizeof(Params{})})
}

// TestAgainstPlainGo multiplies matrices around the tiles of 64 × 64 × 16; with -short, as the sanitizer has it, a few.
func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		all := []struct{ m, n, k int }{
			{2, 63, 7}, {65, 129, 17}, {1, 1, 1}, {63, 64, 15}, {64, 65, 16}, {257, 3, 100}, {33, 257, 255}, {128, 128, 256}, {5, 130, 257},
		}
		if testing.Short() {
			all = all[:2]
		}
		for _, c := range all {
			for _, y := range gputest.Plain {
				for _, w := range gputest.Plain {
					g.Scope(func() { against(g, c.m, c.n, c.k, graph.F32, w, y) })
				}
				g.Scope(func() { against(g, c.m, c.n, c.k, graph.BF16, graph.BF16, y) })
			}
		}
	})
}

func against(g *gputest.GPU, m, n, k int, xType, wType, yType graph.Type) {
	what := fmt.Sprintf("%d × %d × %d, %s × %s to %s", m, n, k, xType, wType, yType)
	x, w, bias := g.Random(m*k, 1), g.Random(n*k, 1/math.Sqrt(float64(k))), g.Random(n, 1)
	p := &Params{X: g.Put(xType, x), W: g.Put(wType, w), Y: g.Room(yType, m*n), M: int32(m), N: int32(n), K: int32(k)}
	if yType == graph.F32 {
		p.ToF32 = 1
	}
	withBias := (m+n)%2 == 0
	if withBias {
		p.Bias = g.F32(bias)
	}
	var want []float64
	for i := range m {
		for j := range n {
			sum := 0.0
			for e := range k {
				sum += float64(x[i*k+e]) * float64(w[j*k+e])
			}
			if withBias {
				sum += float64(bias[j])
			}
			want = append(want, sum)
		}
	}
	kernel, err := Find(g.Loader, xType, wType)
	g.Must(err)
	g.Must(Launch(g.Stream, kernel, p))
	g.Near(what, g.Take(what, yType, p.Y, m*n), want, gputest.Precision(yType))
}
