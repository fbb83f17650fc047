package vec

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// expansions are a tier's kernels that decode rows whose codes stand for floats, and, where the tier has these, multiply them as they are decoded; see
// tools/asm/vec/expand.go.
type expansions struct {
	fp8       func(dst *float32, src *byte, n int, d float32) uint64 // n steps of 64 numbers; not 0: there is a NaN
	fp8Block  func(dst *float32, src *byte, n int) uint64            // n blocks; likewise
	int8      func(dst *float32, src *byte, n int, d float32)        // n steps of 64 numbers
	uint8     func(dst *float32, src *byte, n int)                   // n blocks
	codebook  func(dst *float32, src *byte, n int, table *float32)   // n blocks
	nvfp4     func(dst *float32, src *byte, n int, table, scales *float32, d float32)
	sparse    func(dst *float32, src *byte, n int, table *byte) // n blocks of BF16_2_4
	sparseF16 func(dst *float32, src *byte, n int, table *byte)

	dotFP8, dotInt8 func(x *float32, src *byte, n int, d float32) float32 // nil: there are no dot products
	dotFP8Block     func(x *float32, src *byte, n int) float32
	dotUint8        func(x *float32, src *byte, n int) float32
	dotCodebook     func(x *float32, src *byte, n int, table *float32) float32
	dotNVFP4        func(x *float32, src *byte, n int, table, scales *float32, d float32) float32
}

// e4m3Scales are the values of e4m3, e2m1 those of FP4 numbers, twice as large as they are.
var (
	e4m3Scales = func() (all [256]float32) {
		for i := range all {
			all[i] = quant.E4M3ToF32(byte(i))
		}
		return all
	}()
	e2m1 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

// Expand is quant.Decode of one row of whole blocks, by kernels where the tier has some for the format: bit for bit, unless the scale of a row or
// block is so near the ends of float32's range that its multiples are beyond them.
func (o Ops) Expand(f quant.Format, dst []float32, src []byte) {
	if len(dst) == 0 || o.k.expand == nil || !o.k.expand.row(f, dst, src[:f.RowBytes(len(dst))]) {
		quant.Decode(f, dst, src)
	}
}

// row decodes a row, or leaves it to quant: there is no kernel for the format, or there is a NaN.
func (e *expansions) row(f quant.Format, dst []float32, src []byte) bool {
	n := len(dst) / f.Block()
	switch f {
	case quant.FP8, quant.INT8, quant.NVFP4_ROW:
		return e.scaledRow(f, dst, src)
	case quant.FP8_BLOCK:
		return e.fp8Block(&dst[0], &src[0], n) == 0
	case quant.UINT8:
		e.uint8(&dst[0], &src[0], n)
	case quant.NF4, quant.FP4:
		e.codebook(&dst[0], &src[0], n, &f.Descriptor().Codebook[0])
	case quant.BF16_2_4:
		e.sparse(&dst[0], &src[0], n, &sparsePlaces[0][0])
	case quant.F16_2_4:
		e.sparseF16(&dst[0], &src[0], n, &sparsePlaces[0][0])
	default:
		return false
	}
	return true
}

// rowSteps is how many numbers the kernels of rows with one scale take at a time.
const rowSteps = 64

// scaledRow decodes a row that has one scale for all of it. What is left after the last whole step is done here.
func (e *expansions) scaledRow(f quant.Format, dst []float32, src []byte) bool {
	d, n := rowScale(src), len(dst)/rowSteps
	if n > 0 {
		switch f {
		case quant.FP8:
			if e.fp8(&dst[0], &src[0], n, d) != 0 {
				return false
			}
		case quant.INT8:
			e.int8(&dst[0], &src[0], n, d)
		default:
			e.nvfp4(&dst[0], &src[0], n, &e2m1[0], &e4m3Scales[0], d/2)
		}
	}
	if rest := dst[n*rowSteps:]; len(rest) > 0 {
		quant.Decode(f, rest, src[f.RowBytes(n*rowSteps)-4:])
	}
	return true
}

// rowScale is the scale behind a row.
func rowScale(row []byte) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(row[len(row)-4:]))
}

// DotRow is the product of x and a row of whole blocks in a format, as long. Where the tier has no kernel for it the row is decoded into buffer, also
// as long.
func (o Ops) DotRow(f quant.Format, x []float32, row []byte, buffer []float32) float32 {
	if e := o.k.expand; e != nil && e.dotFP8 != nil && len(x) >= rowSteps {
		if sum, ok := e.dot(f, x, row[:f.RowBytes(len(x))], buffer); ok {
			return sum
		}
	}
	o.Expand(f, buffer[:len(x)], row)
	return o.Dot(x, buffer[:len(x)])
}

// dot is the product, if there is a kernel for the format. It errs by roundings of sums alone, as any order of them does.
func (e *expansions) dot(f quant.Format, x []float32, row []byte, buffer []float32) (sum float32, ok bool) {
	n, steps := len(x)/f.Block(), len(x)/rowSteps
	switch f {
	case quant.FP8_BLOCK:
		return e.dotFP8Block(&x[0], &row[0], n), true
	case quant.UINT8:
		return e.dotUint8(&x[0], &row[0], n), true
	case quant.NF4, quant.FP4:
		return e.dotCodebook(&x[0], &row[0], n, &f.Descriptor().Codebook[0]), true
	case quant.FP8:
		sum = e.dotFP8(&x[0], &row[0], steps, rowScale(row))
	case quant.INT8:
		sum = e.dotInt8(&x[0], &row[0], steps, rowScale(row))
	case quant.NVFP4_ROW:
		sum = e.dotNVFP4(&x[0], &row[0], steps, &e2m1[0], &e4m3Scales[0], rowScale(row)/2)
	default:
		return 0, false
	}
	if rest := x[steps*rowSteps:]; len(rest) > 0 {
		quant.Decode(f, buffer[:len(rest)], row[f.RowBytes(steps*rowSteps)-4:])
		for i, v := range rest {
			sum += v * buffer[i]
		}
	}
	return sum, true
}
