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

// TestDotRow: every tier's products with rows are those with what quant decodes, but for roundings of sums, and NaN where there is one.
func TestDotRow(t *testing.T) {
	for _, f := range expandedFormats {
		for i, n := range []int{f.Block(), 5 * f.Block(), 4608} {
			row, w := expandedRow(t, f, n, uint64(i))
			x, buffer := make([]float32, n), make([]float32, n)
			r, want, size := rand.New(rand.NewPCG(uint64(i), 9)), 0.0, 0.0
			for k := range x {
				x[k] = float32(r.NormFloat64())
				want += float64(x[k]) * float64(w[k])
				size += math.Abs(float64(x[k]) * float64(w[k]))
			}
			for _, tier := range gemm.Tiers() {
				if got := For(tier).DotRow(f, x, row, buffer); !(math.Abs(float64(got)-want) <= 1e-6*size) {
					t.Errorf("%s, %s, %d numbers: %v instead of %v", tier, f, n, got, want)
				}
			}
			if f != quant.FP8 || n < rowSteps {
				continue
			}
			row[n/2] = 0xff
			for _, tier := range gemm.Tiers() {
				if got := For(tier).DotRow(f, x, row, buffer); got == got {
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
