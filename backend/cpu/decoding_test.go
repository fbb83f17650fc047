package cpu

import (
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

// TestDecodingInBytes: with many inputs products are those, in float64, of inputs and weights that have been rounded to 127ths of the largest of 32; of INT8 the
// weights are what they were. Kernels add each 32 products to a large number, which leaves them an error of about half of a product of two steps.
func TestDecodingInBytes(t *testing.T) {
	const m, rows, k = 44, 70, 1152
	r := rand.New(rand.NewPCG(17, 4))
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	in := normal(m * k)
	for _, f := range []quant.Format{quant.FP8, quant.FP8_BLOCK, quant.INT8, quant.NF4, quant.FP4, quant.NVFP4_ROW} {
		weight := &matrix{Tensor: quant.Tensor{Format: f, Rows: rows, Cols: k}}
		want := make([]float64, m*rows)
		for o := range rows {
			row, w := make([]byte, f.RowBytes(k)), make([]float32, k)
			if err := quant.Encode(f, row, normal(k)); err != nil {
				t.Fatal(err)
			}
			weight.Data = append(weight.Data, row...)
			quant.Decode(f, w, row)
			wide := rounded(w)
			for i := range wide {
				if f == quant.INT8 && o < rows/gemm.NR*gemm.NR {
					wide[i] = float64(w[i])
				}
			}
			for i := range m {
				for j, v := range rounded(in[i*k : (i+1)*k]) {
					want[i*rows+o] += v * wide[j]
				}
			}
		}
		for i, dev := range devices() {
			workers, out := dev.pool.N(), make([]float32, m*rows)
			p := &decoding{d: dev, weight: weight, rounds: true, acts: make([]byte, gemm.ActBytes(gemm.Q8, m, k))}
			panels := make([]float32, workers*gemm.NR*k)
			dev.pool.run(func(w *worker) {
				from, to := w.share(rows, gemm.NR)
				p.run(w, panels[w.id*gemm.NR*k:][:gemm.NR*k], out, in, m, from, to)
			})
			worst, largest := 0.0, 0.0
			for j := range out {
				worst, largest = max(worst, math.Abs(float64(out[j])-want[j])), max(largest, math.Abs(want[j]))
			}
			if name := fmt.Sprint(tiers()[i], ", ", f); !(worst <= 2e-4*largest) {
				t.Errorf("%s: an error of %.2g of the largest, at most 2e-4 is right", name, worst/largest)
			}
		}
	}
}
