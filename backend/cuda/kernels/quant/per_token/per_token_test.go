package pertoken

import (
	"fmt"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// archs are the compute capabilities whose kernels are tested: the GPU's own (0), and the oldest.
var archs = []int{0, 80}

var types = []graph.Type{graph.F8, graph.I8}

// loader is that of the GPU, or one of older kernels.
func loader(g *gputest.GPU, arch int) *kernels.Loader {
	if arch == 0 {
		return g.Loader
	}
	l := kernels.NewLoader(g.Ctx, arch)
	g.Cleanup(func() { l.Close() })
	return l
}

// code is x rounded.
func code(t graph.Type, x float32) byte {
	if t == graph.F8 {
		return quant.F32ToE4M3(x)
	}
	return byte(int8(math.RoundToEven(float64(x))))
}

func top(t graph.Type) float32 { return map[graph.Type]float32{graph.F8: 448, graph.I8: 127}[t] }

// TestRounding compares codes and scales with the same sums in Go.
func TestRounding(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, arch := range archs {
			for _, to := range types {
				for _, from := range []graph.Type{graph.BF16, graph.F32} {
					for _, c := range []struct{ rows, n int }{{1, 16}, {3, 4096}, {16, 264}, {24, 14336}} {
						rounding(g, loader(g, arch), from, to, c.rows, c.n)
					}
				}
			}
		}
	})
}

func rounding(g *gputest.GPU, l *kernels.Loader, from, to graph.Type, rows, n int) {
	x := g.Random(rows*n, 3)
	if rows > 1 {
		clear(x[n : 2*n])
		x[n+3] = 0x1p-120 // a row of nearly nothing
	}
	p := &Params{X: g.F32(x), Y: g.Poisoned(rows * n), Scale: g.Poisoned(4 * rows), N: int32(n)}
	if from == graph.BF16 {
		p.X = g.BF16(x)
	}
	k, err := Find(l, from, to)
	g.Must(err)
	g.Must(Launch(g.Stream, k, rows, p))
	codes, scales := g.ReadBytes(p.Y, rows*n), g.ReadF32(p.Scale, rows)
	for r := range rows {
		row, largest := x[r*n:(r+1)*n], float32(0)
		for _, v := range row {
			largest = max(largest, v, -v)
		}
		inverse := top(to) / largest
		if largest < 0x1p-116 {
			inverse = 0
		}
		if want := largest * (1 / top(to)); scales[r] != want {
			g.Errorf("%s to %s: row %d of %d × %d has scale %g, want %g", from, to, r, rows, n, scales[r], want)
		}
		for i, v := range row {
			if got, want := codes[r*n+i], code(to, v*inverse); got != want && !(got&0x7f == 0 && want&0x7f == 0) {
				g.Errorf("%s to %s: number %d of row %d of %d × %d, %g, is %#x, want %#x", from, to, i, r, rows, n, v, got, want)
				return
			}
		}
	}
}

// BenchmarkRounding rounds activations, rotating through more than the L2 cache.
func BenchmarkRounding(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, n := range []int{4096, 14336} {
			for _, rows := range []int{1, 64, 2048, 8192} {
				for _, t := range types {
					g.Scope(func() {
						copies := max(1, 128<<20/(2*rows*n)+1)
						copies = min(copies, 64)
						var set []*Params
						for range copies {
							set = append(set, &Params{X: g.Noise(2 * rows * n), Y: g.Poisoned(rows * n), Scale: g.Poisoned(4 * rows), N: int32(n)})
						}
						k, err := Find(g.Loader, graph.BF16, t)
						g.Must(err)
						d := g.Time(func(run int) error { return Launch(g.Stream, k, rows, set[run%copies]) })
						fmt.Printf("round to %s %5d × %5d  %7.1f µs  %5.2f TB/s\n", t, rows, n, d.Seconds()*1e6, 3*float64(rows)*float64(n)/d.Seconds()/1e12)
					})
				}
			}
		}
	})
}
