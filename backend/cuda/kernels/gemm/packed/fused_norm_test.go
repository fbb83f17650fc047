package packed

import (
	"fmt"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/quant"
)

// TestFused compares products with the normalisation before them, and with the sum behind them, with plain Go; with -short, as the sanitizer
// has it, one for each kernel.
func TestFused(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		eachFormat(g, func(g *gputest.GPU, arch string, f quant.Format) {
			for _, c := range []struct {
				m, k  int
				n     []int
				gated bool
				short bool
			}{
				{m: 1, k: 256, n: []int{40}, short: true}, {m: 1, k: 4096, n: []int{512, 120, 136}}, {m: 2, k: 4096, n: []int{40}, short: true},
				{m: 3, k: 5120, n: []int{24}, short: true}, {m: 4, k: 8192, n: []int{50}}, {m: 1, k: 512, n: []int{4504, 4504}, gated: true},
				{m: 4, k: 768, n: []int{2504, 2504}, gated: true}, {m: 1, k: 256, n: []int{17000}}, {m: 4, k: 256, n: []int{9000}, short: true},
			} {
				if c.m > FusedRows(g.Loader, f, c.k) || testing.Short() && !c.short {
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
	kernel, err := NewFused(g.Loader, f, p)
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
	kernel, err := NewFused(g.Loader, f, Problem{X: g.BF16(x), Rows: m, K: k, Parts: []Part{{W: upload(g, w), Bias: g.F32(bias), Y: sum, N: n}}, Residual: sum})
	g.Must(err)
	g.Must(kernel.Launch(g.Stream, m))
	g.Near(fmt.Sprintf("%s %s added, m %d, k %d, n %d", arch, f, m, k, n), g.ReadBF16(sum, m*n), want, 8e-3)
}

// TestNormFused compares two products with a sum and a normalisation between them, done by both, with plain Go.
func TestNormFused(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if !g.Loader.Hopper() {
			t.Skip("only the sm_90 kernels fuse the norm for NormRows")
		}
		for _, f := range formats() {
			for _, c := range []struct {
				m, k, hidden int
				n            []int
				gated        bool
			}{
				{m: 5, k: 256, hidden: 256, n: []int{40}}, {m: 8, k: 2048, hidden: 512, n: []int{512, 120, 136}}, {m: 16, k: 768, hidden: 1280, n: []int{264, 264}, gated: true},
				{m: 32, k: 512, hidden: 2304, n: []int{48, 8}},
			} {
				behind(g, f, c.m, c.k, c.hidden, c.n, c.gated)
			}
		}
		for _, hidden := range []int{64, 576, 2112} { // tiles that are not full
			behind(g, quant.Q4_0, 13, 1024, hidden, []int{136}, false)
		}
	})
}

// behind is a product added to a residual in place, and one of its normalised rows.
func behind(g *gputest.GPU, f quant.Format, m, k, hidden int, n []int, gated bool) {
	const eps = 1e-2
	what := fmt.Sprintf("%s, m %d, k %d, hidden %d, n %v, gated %v", f, m, k, hidden, n, gated)
	x, residual, scale := g.Random(m*k, 1), g.Random(m*hidden, 4), g.Random(hidden, 1)
	w, plain := random(g, g.Rand, f, hidden, k)
	bias, sum, yWeighted, s := g.Random(hidden, 1), g.BF16(residual), g.Poisoned(2*m*hidden), scratch(g)
	want := plainRows(x, plain, bias, m, k)
	for i := range want {
		want[i] += float64(residual[i])
	}
	weight := g.F32(scale)
	first, err := NewNormEpilogue(g.Loader, f, Problem{X: g.BF16(x), Rows: m, K: k, Parts: []Part{{W: upload(g, w), Bias: g.F32(bias), Y: sum, N: hidden}}, Residual: sum}, weight, yWeighted, s)
	g.Must(err)
	g.Must(first.Launch(g.Stream, m))
	got := g.ReadBF16(sum, m*hidden)
	g.Near(what+", the sum", got, want, 8e-3)

	rows := make([]float32, m*hidden)
	for r := range m {
		row := got[r*hidden : (r+1)*hidden]
		root := math.Sqrt(dot(row, row)/float64(hidden) + eps)
		for i, v := range row {
			rows[r*hidden+i] = float32(float64(v*scale[i]) / root)
		}
	}
	p := Problem{X: yWeighted, Rows: m, K: hidden, Gated: gated}
	var after [][]float64
	p.Parts, after = parts(g, f, rows, m, hidden, n, gated)
	second, err := New(g.Loader, f, p, s)
	g.Must(err)
	g.Must(second.LaunchNormPrologue(g.Stream, m, first, eps))
	for i, y := range after {
		g.Near(fmt.Sprintf("%s, part %d", what, i), g.ReadBF16(p.Parts[i].Y, len(y)), y, 8e-3)
	}
}
