package pointwise

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "pointwise/pointwise", map[string]uintptr{"pointwise_": unsafe.Sizeof(Params{})})
}

func TestScaledMirrors(t *testing.T) {
	gputest.Mirrors(t, "pointwise/scaled", map[string]uintptr{"scale_": unsafe.Sizeof(ScaleParams{}), "xielu_": unsafe.Sizeof(XIELUParams{})})
}

const limit = 3

// functions in float64.
var functions = map[int32]func(x, other float64) float64{
	Act + int32(graph.Silu):     func(x, _ float64) float64 { return x / (1 + math.Exp(-x)) },
	Act + int32(graph.GeluTanh): func(x, _ float64) float64 { return geluTanh(x) },
	Act + int32(graph.GeluErf):  func(x, _ float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) },
	Act + int32(graph.Relu):     func(x, _ float64) float64 { return max(x, 0) },
	Act + int32(graph.Relu2):    func(x, _ float64) float64 { return max(x, 0) * max(x, 0) },
	Act + int32(graph.Sigmoid):  func(x, _ float64) float64 { return 1 / (1 + math.Exp(-x)) },

	ActMul + int32(graph.Silu):     func(x, other float64) float64 { return x / (1 + math.Exp(-x)) * other },
	ActMul + int32(graph.GeluTanh): func(x, other float64) float64 { return geluTanh(x) * other },
	ActMul + int32(graph.GeluErf):  func(x, other float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) * other },
	ActMul + int32(graph.Relu):     func(x, other float64) float64 { return max(x, 0) * other },
	ActMul + int32(graph.Sigmoid):  func(x, other float64) float64 { return other / (1 + math.Exp(-x)) },
	ActMul + int32(graph.Identity): func(x, other float64) float64 { return x * other },

	ActMul + int32(graph.Relu2): func(x, other float64) float64 { return max(x, 0) * max(x, 0) * other },

	Add:     func(x, other float64) float64 { return x + other },
	Softcap: func(x, _ float64) float64 { return limit * math.Tanh(x/limit) },
}

func geluTanh(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// TestAgainstPlainGo applies each function to numbers small and large, some of them more than a thread's eight or a block's 2,048; with -short, as
// the sanitizer has it, to few.
func TestAgainstPlainGo(t *testing.T) {
	sizes := []int{2049, 9, 1, 2, 7, 8, 15, 16, 17, 64, 255, 256, 257, 2047, 2048, 4097}
	if testing.Short() {
		sizes = sizes[:2]
	}
	gputest.Run(t, func(g *gputest.GPU) {
		for _, typ := range gputest.Plain {
			k, err := New(g.Loader, typ)
			g.Must(err)
			for what, f := range functions {
				for _, n := range sizes {
					name := fmt.Sprintf("function %d of %d %s", what, n, typ)
					x, other := g.Random(n, 4), g.Random(n, 1)
					for i := 3; i < n; i += 7 {
						x[i] *= 16 // where exponentials overflow
					}
					p := &Params{X: g.Put(typ, x), Y: g.Room(typ, n), N: int64(n), What: what, Limit: limit}
					if what == Add || what >= ActMul && what < Add {
						p.Other = g.Put(typ, other)
					}
					g.Must(k.Launch(g.Stream, p))
					got, want := g.Take(name, typ, p.Y, n), make([]float64, n)
					for i := range x {
						want[i] = f(float64(x[i]), float64(other[i]))
					}
					// With x behind both: what gelu leaves of -5 is the last digits of erf, and right only beside the 5.
					for _, v := range x {
						got, want = append(got, v), append(want, float64(v))
					}
					g.Near(name, got, want, gputest.Precision(typ))
				}
			}
		}
	})
}
