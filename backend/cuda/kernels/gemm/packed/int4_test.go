package packed

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

func TestRoundedMirror(t *testing.T) {
	gputest.Mirrors(t, "gemm/packed/quantise_int4", map[string]uintptr{"quantise_bf16": unsafe.Sizeof(QuantiseParams{}), "quantise_f32": unsafe.Sizeof(QuantiseParams{})})
}

// TestRound wants the bits of quant.Encode and Pack from the device, also where scales are subnormal halves, and broken blocks to be broken.
func TestRound(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		archs(g, func(arch string) {
			for _, from := range []graph.Type{graph.BF16, graph.F32} {
				for _, c := range []struct{ rows, cols int }{{1, 128}, {37, 640}, {130, 1024}, {300, 256}} {
					round(g, arch, from, c.rows, c.cols)
				}
			}
		})
	})
}

// hard is rows of normal numbers of very different sizes, with zeros, outliers, ties and equal peaks of both signs among them.
func hard(g *gputest.GPU, rows, cols int) []float32 {
	x := g.Random(rows*cols, 1)
	for block := 0; block < len(x); block += 128 {
		size := float32(math.Exp2(60*g.Rand.Float64() - 45))
		for i := range 128 {
			switch v := &x[block+i]; block / 128 % 6 {
			case 0:
				*v *= size
			case 1:
				*v = size * float32(g.Rand.IntN(17)-8) / 2
			case 2:
				*v *= 0.01
			case 3:
				*v = 0
			}
		}
		switch block / 128 % 6 {
		case 2:
			x[block+g.Rand.IntN(128)] = 20
		case 4:
			x[block+3], x[block+100] = 5, -5
		}
	}
	return x
}

func round(g *gputest.GPU, arch string, from graph.Type, rows, cols int) {
	x := hard(g, rows, cols)
	r := &QuantiseParams{X: g.F32(x), N: int32(rows), K: int32(cols)}
	if from == graph.BF16 {
		r.X = g.BF16(x)
		for i, v := range x {
			x[i] = quant.BF16ToF32(quant.F32ToBF16(v))
		}
	}
	w := quant.Tensor{Format: quant.INT4, Rows: rows, Cols: cols, Data: make([]byte, int64(rows)*quant.INT4.RowBytes(cols))}
	for i := range rows {
		g.Must(quant.Encode(quant.INT4, w.Row(i), x[i*cols:(i+1)*cols]))
	}
	n, size := Panels(w)
	want := make([]byte, n*size)
	Pack(want, w, 0, n)
	r.W = g.Zeros(n * size)
	k, err := FindQuantise(g.Loader, from)
	g.Must(err)
	g.Must(Quantise(g.Stream, k, r))
	what := fmt.Sprintf("%s %s, %d × %d", arch, from, rows, cols)
	if got := g.ReadBytes(r.W, len(want)); !bytes.Equal(got, want) {
		for i := range x {
			if a, b := number(got, quant.INT4, cols, i/cols, i%cols), number(want, quant.INT4, cols, i/cols, i%cols); a != b {
				g.Errorf("%s: number %d of row %d, %g, is %g on the device and %g in Go", what, i%cols, i/cols, x[i], a, b)
				return
			}
		}
		g.Errorf("%s: bytes differ that stand for no number", what)
	}

	for _, v := range []float32{float32(math.Inf(-1)), float32(math.NaN()), 530000} {
		x[len(x)-1] = v
		if r.X = g.F32(x); from == graph.BF16 {
			r.X = g.BF16(x)
		}
		g.Must(Quantise(g.Stream, k, r))
		if got := number(g.ReadBytes(r.W, len(want)), quant.INT4, cols, rows-1, cols-1); got == got {
			g.Errorf("%s: %g is %g", what, v, got)
		}
	}
}

// BenchmarkRound prints what rounding the gate of Llama-3.1-8B takes.
func BenchmarkRound(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		const n, k, copies = 14336, 4096, 4
		bytes := tiles(n) * tileUnits(k) * unitBytes(quant.INT4)
		x, w := g.Noise(copies*2*n*k), g.Zeros(copies*bytes)
		kernel, err := FindQuantise(g.Loader, graph.BF16)
		g.Must(err)
		for range 2 {
			d := g.Time(func(run int) error {
				i := run % copies
				return Quantise(g.Stream, kernel, &QuantiseParams{X: x + driver.Ptr(i*2*n*k), W: w + driver.Ptr(i*bytes), N: n, K: k})
			})
			fmt.Printf("round to INT4 %6.1f µs %4.2f TB/s\n", d.Seconds()*1e6, float64(bytes+2*n*k)/d.Seconds()/1e12)
		}
	})
}
