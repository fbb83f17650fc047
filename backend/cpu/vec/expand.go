package vec

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// expansions are a tier's kernels that decode rows whose codes stand for floats, and, where the tier has these, multiply them as they are decoded; see
// tools/asm/vec/expand.go.
type expansions struct {
	fp8       func(dst *float32, src *byte, n int, d float32) uint64                  // n steps of 64 numbers; not 0: there is a NaN
	fp8Block  func(dst *float32, src *byte, n int) uint64                             // n blocks; likewise
	int8      func(dst *float32, src *byte, n int, d float32)                         // n steps of 64 numbers
	uint8     func(dst *float32, src *byte, n int)                                    // n blocks
	codebook  func(dst *float32, src *byte, n int, table *float32)                    // n blocks
	nvfp4     func(dst *float32, src *byte, n int, table, scales *float32, d float32) // scales are pairs
	sparse    func(dst *float32, src *byte, n int, table *byte)                       // n blocks of BF16_2_4
	sparseF16 func(dst *float32, src *byte, n int, table *byte)

	dotFP8, dotInt8, dotFP8Block, dotUint8 dotFunc      // nil: there are no products
	words                                  *wordKernels // nil likewise
	bytes                                  *byteKernels // nil: rows are decoded and rounded
}

// A dotFunc multiplies rows of weights, stride bytes apart, of so many steps or blocks, with the numbers at x.
type dotFunc func(out, x *float32, src *byte, n, rows, stride int)

// e4m3Scales are the values of e4m3, each twice, e2m1 those of FP4 numbers, twice as large as they are.
var (
	e4m3Scales = func() (all [256][2]float32) {
		for i := range all {
			v := quant.E4M3ToF32(byte(i))
			all[i] = [2]float32{v, v}
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
			e.nvfp4(&dst[0], &src[0], n, &e2m1[0], &e4m3Scales[0][0], d/2)
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

// DotRows gives the products of an input and rows of weights in its format, one behind the other, as many as out. Where the tier has no kernel for it rows
// are decoded into buffer, as long as the input.
func (o Ops) DotRows(out []float32, in *Input, weights []byte, buffer []float32) {
	x, e, stride := in.x, o.k.expand, int(in.format.RowBytes(len(in.x)))
	done := 0 // numbers of rows
	if e != nil && len(out) > 0 {
		_ = weights[len(out)*stride-1] // the kernels do not check
		done = e.dot(out, in, &weights[0], stride)
	}
	for i := range out {
		row := weights[i*stride : (i+1)*stride]
		switch rest := buffer[:len(x)-done]; {
		case done == 0:
			o.Expand(in.format, rest, row)
			out[i] = o.Dot(x, rest)
		case len(rest) > 0:
			quant.Decode(in.format, rest, row[done/in.format.Block()*in.format.BlockBytes():])
			for k, v := range x[done:] {
				out[i] += v * rest[k]
			}
		}
	}
}

// dot multiplies the first numbers of rows, and says how many. It errs by roundings of sums alone, as any order of them does.
func (e *expansions) dot(out []float32, in *Input, weights *byte, stride int) (done int) {
	if in.words != nil {
		return e.words.dot(out, in, weights, stride)
	}
	dot, step := dotFunc(nil), rowSteps
	switch in.format {
	case quant.FP8:
		dot = e.dotFP8
	case quant.INT8:
		dot = e.dotInt8
	case quant.FP8_BLOCK:
		dot, step = e.dotFP8Block, in.format.Block()
	case quant.UINT8:
		dot, step = e.dotUint8, in.format.Block()
	}
	n := len(in.x) / step
	if dot == nil || n == 0 {
		return 0
	}
	dot(&out[0], &in.x[0], weights, n, len(out), stride)
	return n * step
}
