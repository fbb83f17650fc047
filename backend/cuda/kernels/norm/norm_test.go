package norm

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

const eps = 1e-5

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "norm/norm", map[string]uintptr{"rms_": unsafe.Sizeof(Params{}), "layer_": unsafe.Sizeof(Params{})})
}

// lengths of rows, around warps, around eight numbers a thread, and beyond what the wide kernel keeps in registers.
var lengths = []int{1, 2, 7, 8, 31, 32, 33, 96, 127, 128, 129, 255, 256, 257, 1000, 1023, 1025, 4096, 8192, 8200}

// rms is root-mean-square normalisation of one row in float64.
func rms(x []float64, weight []float32) []float64 {
	squares := 0.0
	for _, v := range x {
		squares += v * v
	}
	y, scale := make([]float64, len(x)), 1/math.Sqrt(squares/float64(len(x))+eps)
	for i, v := range x {
		y[i] = v * scale * float64(weight[i])
	}
	return y
}

// layer is LayerNorm of one row.
func layer(x []float64, weight, bias []float32) []float64 {
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	y, scale := make([]float64, len(x)), 1/math.Sqrt(squares/float64(len(x))+eps)
	for i, v := range x {
		y[i] = (v - mean) * scale * float64(weight[i])
		if bias != nil {
			y[i] += float64(bias[i])
		}
	}
	return y
}

// added is the sum of two rows, rounded to a type where a kernel rounds it.
func added(t graph.Type, x, z []float32) (sum []float64) {
	for i := range x {
		s := x[i] + z[i]
		if t == graph.BF16 {
			s = quant.BF16ToF32(quant.F32ToBF16(s))
		}
		sum = append(sum, float64(s))
	}
	return sum
}

// TestRMS normalises rows, and sums of rows, which it also stores.
func TestRMS(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, typ := range gputest.Plain {
			for _, n := range lengths {
				for _, withSum := range []bool{false, true} {
					g.Scope(func() { testRMS(g, typ, n, withSum) })
				}
			}
		}
	})
}

func testRMS(g *gputest.GPU, typ graph.Type, n int, withSum bool) {
	const rows = 3
	what := fmt.Sprintf("%d rows of %d %s, sum %v", rows, n, typ, withSum)
	x, z, weight := g.Random(rows*n, 2), make([]float32, rows*n), g.Random(n, 1)
	p := &Params{X: g.Put(typ, x), Weight: g.F32(weight), Y: g.Room(typ, rows*n), Rows: rows, N: int32(n), Groups: 1, Eps: eps}
	if withSum {
		z = g.Random(rows*n, 3)
		p.Add, p.Sum = g.Put(typ, z), g.Room(typ, rows*n)
	}
	k, err := RMS(g.Loader, typ, n)
	g.Must(err)
	g.Must(k.Launch(g.Stream, p))
	sums, want := added(typ, x, z), []float64(nil)
	for r := range rows {
		want = append(want, rms(sums[r*n:(r+1)*n], weight)...)
	}
	g.Near(what, g.Take(what, typ, p.Y, rows*n), want, gputest.Precision(typ))
	if withSum {
		g.Near(what+": the sum", g.Take(what, typ, p.Sum, rows*n), sums, 1e-7)
	}
}

// TestGroupRMS normalises each head of a row.
func TestGroupRMS(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, typ := range gputest.Plain {
			for _, c := range []struct{ rows, groups, n int }{{1, 1, 1}, {1, 3, 33}, {3, 5, 64}, {5, 8, 128}, {2, 7, 257}, {17, 1, 80}} {
				what := fmt.Sprintf("%+v %s", c, typ)
				all := c.rows * c.groups * c.n
				x, weight := g.Random(all, 2), g.Random(c.n, 1)
				p := &Params{X: g.Put(typ, x), Weight: g.F32(weight), Y: g.Room(typ, all), Rows: int32(c.rows), N: int32(c.n), Groups: int32(c.groups), Eps: eps}
				k, err := GroupRMS(g.Loader, typ)
				g.Must(err)
				g.Must(k.Launch(g.Stream, p))
				exact, want := added(graph.F32, x, make([]float32, all)), []float64(nil)
				for from := 0; from < all; from += c.n {
					want = append(want, rms(exact[from:from+c.n], weight)...)
				}
				g.Near(what, g.Take(what, typ, p.Y, all), want, gputest.Precision(typ))
			}
		}
	})
}

// TestLayer: LayerNorm, also of rows whose mean is far larger than what they differ by.
func TestLayer(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, typ := range gputest.Plain {
			for _, n := range lengths[1:] { // a row of one number is all mean
				for _, mean := range []float32{0, 256} {
					g.Scope(func() { testLayer(g, typ, n, mean) })
				}
			}
		}
	})
}

func testLayer(g *gputest.GPU, typ graph.Type, n int, mean float32) {
	const rows = 2
	what := fmt.Sprintf("%d rows of %d %s around %g", rows, n, typ, mean)
	x, weight, bias := g.Random(rows*n, 8), g.Random(n, 1), g.Random(n, 1)
	for i := range x {
		x[i] = quant.BF16ToF32(quant.F32ToBF16(x[i] + mean))
	}
	p := &Params{X: g.Put(typ, x), Weight: g.F32(weight), Y: g.Room(typ, rows*n), Rows: rows, N: int32(n), Groups: 1, Eps: eps}
	if n%2 == 0 {
		p.Bias = g.F32(bias)
	} else {
		bias = nil
	}
	k, err := Layer(g.Loader, typ, n)
	g.Must(err)
	g.Must(k.Launch(g.Stream, p))
	exact, want := added(graph.F32, x, make([]float32, rows*n)), []float64(nil)
	for r := range rows {
		want = append(want, layer(exact[r*n:(r+1)*n], weight, bias)...)
	}
	g.Near(what, g.Take(what, typ, p.Y, rows*n), want, gputest.Precision(typ))
}
