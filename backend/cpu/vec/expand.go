package vec

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// expansions are a tier's kernels that decode rows whose codes stand for floats; see tools/asm/vec/expand.go.
type expansions struct {
	fp8       func(dst *float32, src *byte, n int, d float32) uint64 // n steps of 64 numbers
	fp8Block  func(dst *float32, src *byte, n int) uint64            // n blocks, as all of the following
	int8      func(dst *float32, src *byte, n int, d float32)        // of 16 numbers
	uint8     func(dst *float32, src *byte, n int)
	codebook  func(dst *float32, src *byte, n int, table *float32)
	nvfp4     func(dst *float32, src *byte, n int, table, scales *float32, d float32)
	sparse    func(dst *float32, src *byte, n int, table *byte) // BF16_2_4
	sparseF16 func(dst *float32, src *byte, n int, table *byte)
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
	case quant.FP8:
		return e.rowFP8(dst, src)
	case quant.FP8_BLOCK:
		return e.fp8Block(&dst[0], &src[0], n) == 0
	case quant.INT8:
		e.int8(&dst[0], &src[0], n, rowScale(src))
	case quant.UINT8:
		e.uint8(&dst[0], &src[0], n)
	case quant.NF4, quant.FP4:
		e.codebook(&dst[0], &src[0], n, &f.Descriptor().Codebook[0])
	case quant.NVFP4_ROW:
		e.nvfp4(&dst[0], &src[0], n, &e2m1[0], &e4m3Scales[0], rowScale(src)/2)
	case quant.BF16_2_4:
		e.sparse(&dst[0], &src[0], n, &sparsePlaces[0][0])
	case quant.F16_2_4:
		e.sparseF16(&dst[0], &src[0], n, &sparsePlaces[0][0])
	default:
		return false
	}
	return true
}

// rowScale is the scale behind a row.
func rowScale(row []byte) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(row[len(row)-4:]))
}

// rowFP8 decodes a row of FP8; what is left of it after the last 64 numbers is done here.
func (e *expansions) rowFP8(dst []float32, src []byte) bool {
	d, whole := rowScale(src), len(dst)&^63
	if whole > 0 && e.fp8(&dst[0], &src[0], whole/64, d) != 0 {
		return false
	}
	for i, c := range src[whole:len(dst)] {
		dst[whole+i] = e4m3Scales[c] * d
	}
	return true
}
