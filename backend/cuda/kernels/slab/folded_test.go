package slab

import (
	"fmt"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/quant"
)

// TestFolded compares products with the normalisation before them, and with the sum behind them, with plain Go; with -short, as the sanitizer
// has it, one for each kernel.
func TestFolded(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		eachFormat(g, func(g *gputest.GPU, arch string, f quant.Format) {
			for _, c := range []struct {
				m, k  int
				n     []int
				gated bool
				short bool
			}{
				{m: 1, k: 256, n: []int{40}, short: true}, {m: 1, k: 4096, n: []int{512, 120, 136}}, {m: 2, k: 4096, n: []int{40}, short: true}, {m: 3, k: 5120, n: []int{24}, short: true}, {m: 4, k: 8192, n: []int{50}},
				{m: 1, k: 512, n: []int{4504, 4504}, gated: true}, {m: 4, k: 768, n: []int{2504, 2504}, gated: true}, {m: 1, k: 256, n: []int{17000}}, {m: 4, k: 256, n: []int{9000}, short: true},
			} {
				if c.m > Folds(g.Loader, f, c.k) || testing.Short() && !c.short {
					continue
				}
				normed(g, arch, f, c.m, c.k, c.n, c.gated)
				if len(c.n) == 1 {
					summed(g, arch, f, c.m, c.k, c.n[0])
				}
			}
		})
	})
}

// normed is a problem whose x is normalised in the same launch.
func normed(g *gputest.GPU, arch string, f quant.Format, m, k int, n []int, gated bool) {
	const eps = 1e-2
	x, scale := g.Random(m*k, 1), g.Random(k, 1)
	p := Problem{X: g.BF16(x), Rows: m, K: k, Gated: gated, Norm: g.F32(scale), Eps: eps}
	rows := make([]float32, m*k)
	for r := range m {
		sum := dot(x[r*k:(r+1)*k], x[r*k:(r+1)*k])
		for i := range k {
			rows[r*k+i] = float32(float64(x[r*k+i]*scale[i]) / math.Sqrt(sum/float64(k)+eps))
		}
	}
	var want [][]float64
	p.Parts, want = parts(g, f, rows, m, k, n, gated)
	kernel, err := Folded(g.Loader, f, p)
	g.Must(err)
	g.Must(kernel.Launch(g.Stream, m))
	for i, y := range want {
		g.Near(fmt.Sprintf("%s %s normalised, m %d, k %d, n %v, gated %v, part %d", arch, f, m, k, n, gated, i), g.ReadBF16(p.Parts[i].Y, len(y)), y, 8e-3)
	}
}

// summed is a problem whose result is added to a residual in the same launch, in place.
func summed(g *gputest.GPU, arch string, f quant.Format, m, k, n int) {
	x, residual := g.Random(m*k, 1), g.Random(m*n, 4)
	w, plain := random(g, g.Rand, f, n, k)
	bias, sum := g.Random(n, 1), g.BF16(residual)
	want := plainRows(x, plain, bias, m, k)
	for i := range want {
		want[i] += float64(residual[i])
	}
	kernel, err := Folded(g.Loader, f, Problem{X: g.BF16(x), Rows: m, K: k, Parts: []Part{{W: upload(g, w), Bias: g.F32(bias), Y: sum, N: n}}, Residual: sum})
	g.Must(err)
	g.Must(kernel.Launch(g.Stream, m))
	g.Near(fmt.Sprintf("%s %s added, m %d, k %d, n %d", arch, f, m, k, n), g.ReadBF16(sum, m*n), want, 8e-3)
}
