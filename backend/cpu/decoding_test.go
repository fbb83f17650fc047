package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// rounded is x as Q8 has it: 127ths of the largest of 32 numbers.
func rounded(x []float32) []float64 {
	y := make([]float64, len(x))
	for b := 0; b < len(x); b += 32 {
		var largest float32
		for _, v := range x[b : b+32] {
			largest = max(largest, v, -v)
		}
		if largest == 0 {
			continue
		}
		inverse := 127 / largest
		for i, v := range x[b : b+32] {
			y[b+i] = math.RoundToEven(float64(v*inverse)) * float64(largest*float32(1./127))
		}
	}
	return y
}

// inBytes is a row of weights as panels of bytes have it: of INT8 as it was, by kernels of codes their values or 127ths of a block's scale, and rounded else.
func inBytes(dev *Device, f quant.Format, whole bool, row []byte, w []float32) []float64 {
	wide := rounded(w)
	makes, exact := dev.vec.BytesOf(f)
	exact = exact || f == quant.INT8 && whole
	for i, v := range w {
		switch {
		case exact:
			wide[i] = float64(v)
		case makes:
			largest := float64(math.Float32frombits(binary.LittleEndian.Uint32(row[i/64*36:])))
			wide[i] = math.RoundToEven(float64(v)/largest*127) / 127 * largest
		}
	}
	return wide
}

// TestDecodingInBytes: with several inputs products are those, in float64, of inputs that have been rounded to 127ths of the largest of 32 and of weights in bytes. Kernels add each 32 products to a large number, which leaves them an error of about half of a product of two steps.
func TestDecodingInBytes(t *testing.T) {
	const rows, k = 70, 1152
	counts := []int{2, 5, 9, 20, 44}
	r := rand.New(rand.NewPCG(17, 4))
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	in := normal(counts[len(counts)-1] * k)
	for _, f := range []quant.Format{quant.FP8, quant.FP8_BLOCK, quant.INT8, quant.NF4, quant.FP4, quant.NVFP4_ROW} {
		weight := &matrix{Tensor: quant.Tensor{Format: f, Rows: rows, Cols: k}}
		decoded := make([][]float32, rows)
		for o := range rows {
			row := make([]byte, f.RowBytes(k))
			if err := quant.Encode(f, row, normal(k)); err != nil {
				t.Fatal(err)
			}
			weight.Data, decoded[o] = append(weight.Data, row...), make([]float32, k)
			quant.Decode(f, decoded[o], row)
		}
		for i, dev := range devices() {
			wide := make([][]float64, rows)
			for o, w := range decoded {
				wide[o] = inBytes(dev, f, o < rows/gemm.NR*gemm.NR, weight.Row(o), w)
			}
			for _, m := range counts {
				if dev.inBytes(f, m) {
					testInBytes(t, fmt.Sprintf("%s, %s, %d inputs", tiers()[i], f, m), dev, weight, wide, in, m)
				}
			}
		}
	}
}

func testInBytes(t *testing.T, name string, dev *Device, weight *matrix, wide [][]float64, in []float32, m int) {
	rows, k := weight.Rows, weight.Cols
	workers, out := dev.pool.N(), make([]float32, m*rows)
	p := &decoding{d: dev, weight: weight, rounds: true, acts: make([]byte, gemm.ActBytes(gemm.Q8, m, k))}
	panels := make([]float32, workers*gemm.NR*k)
	dev.pool.run(func(w *worker) {
		from, to := w.share(rows, gemm.NR)
		p.run(w, panels[w.id*gemm.NR*k:][:gemm.NR*k], out, in, m, from, to)
	})
	worst, largest := 0.0, 0.0
	for i := range m {
		x := rounded(in[i*k : (i+1)*k])
		for o, weights := range wide {
			want := 0.0
			for j, v := range x {
				want += v * weights[j]
			}
			worst, largest = max(worst, math.Abs(float64(out[i*rows+o])-want)), max(largest, math.Abs(want))
		}
	}
	if !(worst <= 2e-4*largest) {
		t.Errorf("%s: an error of %.2g of the largest, at most 2e-4 is right", name, worst/largest)
	}
}
