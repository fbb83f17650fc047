package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

var expandedFormats = []quant.Format{
	quant.BF16_2_4, quant.F16_2_4, quant.FP8, quant.FP8_BLOCK, quant.INT8, quant.UINT8, quant.NF4, quant.FP4, quant.NVFP4_ROW,
}

// expandedRow is a row in a format whose codes are all kinds of bytes; the numbers between are those that quant decodes.
func expandedRow(t testing.TB, f quant.Format, n int, seed uint64) (row []byte, want []float32) {
	r := rand.New(rand.NewPCG(seed, 1))
	row, want = make([]byte, f.RowBytes(n)), make([]float32, n)
	for i := range want {
		want[i] = float32(r.NormFloat64())
	}
	if err := quant.Encode(f, row, want); err != nil {
		t.Fatal(err)
	}
	if f == quant.FP8 || f == quant.INT8 || f == quant.NVFP4_ROW { // scales are behind
		for i := range row[:len(row)-4] {
			if row[i] = byte(r.Uint32()); f == quant.FP8 && row[i]&0x7f == 0x7f {
				row[i] = 0
			}
			if row[i]&0x7f == 0x7f && f == quant.NVFP4_ROW { // which as a scale is NaN
				row[i] = 8
			}
		}
	}
	quant.Decode(f, want, row)
	return row, want
}

func sameBits(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			return i
		}
	}
	return -1
}

// TestExpand: every tier makes of random rows, with every code, what quant decodes, bit for bit.
func TestExpand(t *testing.T) {
	for _, f := range expandedFormats {
		for i, n := range []int{f.Block(), 5 * f.Block(), 4608} {
			row, want := expandedRow(t, f, n, uint64(i))
			for _, tier := range gemm.Tiers() {
				got := make([]float32, n+16)
				got[n] = 7
				For(tier).Expand(f, got[:n], row)
				if at := sameBits(got[:n], want); at >= 0 {
					t.Errorf("%s, %s, %d numbers: number %d is %v instead of %v", tier, f, n, at, got[at], want[at])
				}
				if got[n] != 7 {
					t.Errorf("%s, %s, %d numbers: one behind them was written", tier, f, n)
				}
			}
		}
	}
}

// TestExpandNaN: a code that is NaN stays one, of either sign and wherever it is.
func TestExpandNaN(t *testing.T) {
	for _, f := range []quant.Format{quant.FP8, quant.FP8_BLOCK} {
		for _, at := range []int{0, 63, 64, 130, 255, 320} {
			for _, code := range []byte{0x7f, 0xff} {
				const n = 384
				row, want := expandedRow(t, f, n, 3)
				if f == quant.FP8 {
					row[at] = code
				} else {
					row[at+4*(1+at/128)] = code
				}
				quant.Decode(f, want, row)
				for _, tier := range gemm.Tiers() {
					got := make([]float32, n)
					For(tier).Expand(f, got, row)
					if at := sameBits(got, want); at >= 0 {
						t.Errorf("%s, %s: number %d is %v instead of %v", tier, f, at, got[at], want[at])
					}
				}
			}
		}
	}
}

// dotRow is DotRows with one row.
func dotRow(tier gemm.Tier, f quant.Format, x []float32, row []byte, buffer []float32) float32 {
	in, out := For(tier).Input(f, x, make([]float32, len(x))), [1]float32{}
	For(tier).DotRows(out[:], &in, row, buffer)
	return out[0]
}

// TestDotSeveral: each of several rows has the product that it has alone.
func TestDotSeveral(t *testing.T) {
	const rows = 3
	for _, f := range expandedFormats {
		for _, n := range []int{f.Block(), 5 * f.Block(), 4608} {
			var weights []byte
			var want [rows]float32
			x, buffer := make([]float32, n), make([]float32, n)
			for k := range x {
				x[k] = float32(k%13) - 6
			}
			for _, tier := range gemm.Tiers() {
				weights = weights[:0]
				for r := range want {
					row, _ := expandedRow(t, f, n, uint64(r))
					weights, want[r] = append(weights, row...), dotRow(tier, f, x, row, buffer)
				}
				in, got := For(tier).Input(f, x, make([]float32, n)), [rows + 1]float32{rows: 7}
				For(tier).DotRows(got[:rows], &in, weights, buffer)
				if sameBits(got[:rows], want[:]) >= 0 || got[rows] != 7 {
					t.Errorf("%s, %s, rows of %d: %v instead of %v and 7", tier, f, n, got, want)
				}
			}
		}
	}
}

// dotError is how far a product of so large products may be off: by roundings of sums, and of an input and values to words where they are.
func dotError(tier gemm.Tier, f quant.Format, x, w []float32) (most float64) {
	in := For(tier).Input(f, x, make([]float32, len(x)))
	for k := range x {
		most += 1e-6 * math.Abs(float64(x[k])*float64(w[k]))
		if in.words == nil {
			continue
		}
		var largest, value float64
		for i := k &^ 127; i < min(len(x), k&^127+128); i++ {
			largest = max(largest, math.Abs(float64(x[i])))
		}
		for i := k &^ 63; i < min(len(x), k&^63+64) && f != quant.NVFP4_ROW; i++ {
			value = max(value, math.Abs(float64(w[i])))
		}
		most += WordError * (largest*math.Abs(float64(w[k])) + value*math.Abs(float64(x[k])))
	}
	return most
}

// TestDotRows: every tier's products with rows are those with what quant decodes, but for roundings, and NaN where there is one.
func TestDotRows(t *testing.T) {
	for _, f := range expandedFormats {
		for i, n := range []int{f.Block(), 5 * f.Block(), 4608} {
			row, w := expandedRow(t, f, n, uint64(i))
			x, buffer := make([]float32, n), make([]float32, n)
			r, want := rand.New(rand.NewPCG(uint64(i), 9)), 0.0
			for k := range x {
				x[k] = float32(r.NormFloat64())
				want += float64(x[k]) * float64(w[k])
			}
			for _, tier := range gemm.Tiers() {
				if got := dotRow(tier, f, x, row, buffer); !(math.Abs(float64(got)-want) <= dotError(tier, f, x, w)) {
					t.Errorf("%s, %s, %d numbers: %v instead of %v", tier, f, n, got, want)
				}
			}
			for _, tier := range gemm.Tiers() {
				at := x[n/2]
				x[n/2] = float32(math.NaN())
				if got := dotRow(tier, f, x, row, buffer); got == got {
					t.Errorf("%s, %s, %d numbers with a NaN in the input: %v", tier, f, n, got)
				}
				if x[n/2] = at; dotRow(tier, f, make([]float32, n), row, buffer) != 0 {
					t.Errorf("%s, %s: the product with %d zeros is not 0", tier, f, n)
				}
			}
			if f != quant.FP8 || n < rowSteps {
				continue
			}
			row[n/2] = 0xff
			for _, tier := range gemm.Tiers() {
				if got := dotRow(tier, f, x, row, buffer); got == got {
					t.Errorf("%s, %s, %d numbers with a NaN: %v", tier, f, n, got)
				}
			}
		}
	}
}

func BenchmarkExpand(b *testing.B) {
	for _, f := range expandedFormats {
		src, _ := expandedRow(b, f, 4096, 1)
		dst := make([]float32, 4096)
		for _, tier := range gemm.Tiers() {
			b.Run(fmt.Sprint(f, "/", tier), func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					For(tier).Expand(f, dst, src)
				}
			})
		}
	}
}
