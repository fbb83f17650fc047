package packed

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// TestSparsePrompts: with -short, as the sanitizer has it, one problem for each kernel, and for each kind of schedule.
func TestSparsePrompts(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if !g.Loader.Hopper() {
			t.Skip("sparse products of many rows are Hopper's; elsewhere weights are dequantised first")
		}
		sums := g.Poisoned(int(densesm90.PartialBytes(g.Loader.SMs(), densesm90.MaxRows)))
		for _, c := range []struct {
			m, k  int
			n     []int
			gated bool
			short bool
		}{
			{m: 65, k: 256, n: []int{128}, short: true}, {m: 100, k: 320, n: []int{1000}, short: true}, {m: 128, k: 4096, n: []int{264}}, {m: 200, k: 448, n: []int{520}, short: true},
			{m: 300, k: 576, n: []int{640}, short: true}, {m: 2100, k: 128, n: []int{256}, short: true}, {m: 1, k: 64, n: []int{8}}, {m: 1300, k: 192, n: []int{1536, 512, 512}, short: true},
			{m: 100, k: 128, n: []int{136, 136}, gated: true, short: true}, {m: 130, k: 192, n: []int{344, 344}, gated: true, short: true}, {m: 700, k: 128, n: []int{448, 448}, gated: true},
			{m: 100, k: 512, n: []int{256, 256}, gated: true, short: true}, {m: 250, k: 448, n: []int{1024, 1024}, gated: true, short: true}, {m: 1300, k: 1088, n: []int{1280, 1280}, gated: true},
			{m: 1200, k: 320, n: []int{4096}}, {m: 2600, k: 64, n: []int{2560}}, {m: 257, k: 14336, n: []int{512}},
		} {
			if testing.Short() && !c.short {
				continue
			}
			for _, f := range []quant.Format{quant.BF16_2_4, quant.F16_2_4} {
				name := fmt.Sprintf("%s, m %d, k %d, n %v, gated %v", f, c.m, c.k, c.n, c.gated)
				g.Sub(name, func(g *gputest.GPU) {
					x := g.Random(c.m*c.k, 1)
					p := Problem{X: g.BF16(x), Rows: c.m, K: c.k, Gated: c.gated}
					var want [][]float64
					p.Parts, want = parts(g, f, x, c.m, c.k, c.n, c.gated)
					kernel, err := NewSparse(g.Loader, p, sums)
					g.Must(err)
					if kernel == nil {
						t.Fatal("the kernels do not take the problem")
					}
					for range 2 { // the second finds the sums as the first left them
						g.Must(kernel.Launch(g.Stream, c.m))
						for i, y := range want {
							g.Near(name, g.ReadBF16(p.Parts[i].Y, len(y)), y, 6e-3)
							g.Must(g.Stream.Fill(p.Parts[i].Y, 0xff, int64(2*len(y))))
						}
					}
				})
			}
		}
	})
}

// BenchmarkSparse prints what the layers of Llama-3.1-8B take with 2:4 sparse weights, by the kernels for few and for many rows, beside dense ones, by turns.
func BenchmarkSparse(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		if !g.Loader.Hopper() {
			b.Skip("Hopper's kernels")
		}
		s := scratch(g)
		for _, l := range layers[:4] {
			g.Scope(func() {
				rnd, _ := random(g, g.Rand, quant.BF16_2_4, panelRows, l.k)
				_, size := Panels(rnd)
				panel := make([]byte, size)
				Pack(panel, rnd, 0, 1)
				for _, m := range []int{64, 128, 256, 512, 1024, 2048, 8192} {
					g.Scope(func() {
						p := Problem{X: g.Noise(2 * m * l.k), Rows: m, K: l.k, Gated: l.gated}
						dense := densesm90.Problem{Type: graph.BF16, X: p.X, Rows: m, K: l.k, Gated: l.gated}
						total := 0
						for _, n := range l.n {
							total += n
							y := g.Poisoned(2 * m * n)
							p.Parts = append(p.Parts, Part{W: g.Bytes(bytes.Repeat(panel, n/panelRows)), Y: y, N: n})
							dense.Weights = append(dense.Weights, densesm90.Weight{W: g.Noise(2 * n * l.k), Y: y, N: n})
						}
						if l.gated {
							dense.Weights[0].W = g.Noise(4 * l.n[0] * l.k)
							dense.Weights = dense.Weights[:1]
						}
						few, err := New(g.Loader, quant.BF16_2_4, p, s)
						g.Must(err)
						many, err := NewSparse(g.Loader, p, s.SplitKSums)
						g.Must(err)
						plain, err := densesm90.New(g.Loader, dense, s.SplitKSums)
						g.Must(err)
						fmt.Printf("%-7s %5d rows", l.name, m)
						flops, first := 2*float64(m)*float64(total)*float64(l.k), 0.0
						for _, v := range []struct {
							name   string
							launch func(*driver.Stream, int) error
						}{{"dense", plain.Launch}, {"sparse", many.Launch}, {"few rows'", few.Launch}, {"dense", plain.Launch}, {"sparse", many.Launch}} {
							d := g.Time(func(int) error { return v.launch(g.Stream, m) }).Seconds()
							if v.name == "dense" {
								first = d
							}
							fmt.Printf("  %s %7.1f µs %4.0f TFLOP/s %4.2f", v.name, d*1e6, flops/d/1e12, first/d)
						}
						fmt.Println()
					})
				}
			})
		}
	})
}
