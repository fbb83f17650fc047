package vec

import (
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// byteKernels make signed bytes of four-bit codes; see tools/asm/vec/bytes.go.
type byteKernels struct {
	codebook func(codes *byte, scales *float32, src *byte, n int, table *byte)                           // n blocks
	nvfp4    func(codes *byte, scales *float32, src *byte, n int, table *byte, e4m3 *float32, d float32) // n steps of 64 numbers

	from, rounded int // see ByteRows
}

// codebookBytes are the values of a codebook in 127ths.
func codebookBytes(values *[16]float32) (table [16]byte) {
	for i, v := range values {
		table[i] = byte(int8(math.RoundToEven(float64(v) * 127)))
	}
	return table
}

// e2m1Times makes more of a byte's range of values twice as large as FP4 numbers: matmuls round the sum of products under a scale to whole numbers.
const e2m1Times = 10

var (
	nf4Bytes, fp4Bytes = codebookBytes(quant.NF4.Descriptor().Codebook), codebookBytes(quant.FP4.Descriptor().Codebook)
	e2m1Bytes          = func() (table [16]byte) {
		for i, v := range e2m1 {
			table[i] = byte(int8(e2m1Times * v))
		}
		return table
	}()
)

// BytesOf says whether the tier makes bytes of a format, and whether their scales are for 16 numbers, where others are for 32.
func (o Ops) BytesOf(f quant.Format) (makes, sub16 bool) {
	makes = o.k.expand != nil && o.k.expand.bytes != nil && (f == quant.NF4 || f == quant.FP4 || f == quant.NVFP4_ROW)
	return makes, makes && f == quant.NVFP4_ROW
}

// ByteRows is the number of inputs from which on it pays to make bytes of rows of a format, whose codes have to be decoded and rounded if the tier does not make bytes of them.
// The bytes of INT8 only move.
func (o Ops) ByteRows(f quant.Format) int {
	makes, _ := o.BytesOf(f)
	switch {
	case f == quant.INT8:
		return 2
	case makes:
		return o.k.expand.bytes.from
	case o.k.expand != nil && o.k.expand.bytes != nil:
		return o.k.expand.bytes.rounded
	}
	return 32
}

// Bytes makes of a row in such a format signed bytes and their scales: of NVFP4_ROW what quant decodes but for the rounding of a scale, of NF4 and FP4 to half a 127th of a block's largest.
// The row is of whole blocks and of a multiple of 32 numbers.
func (o Ops) Bytes(f quant.Format, codes []byte, scales []float32, row []byte) {
	k, n := o.k.expand.bytes, len(codes)/rowSteps
	switch f {
	case quant.NF4:
		k.codebook(&codes[0], &scales[0], &row[0], n, &nf4Bytes[0])
	case quant.FP4:
		k.codebook(&codes[0], &scales[0], &row[0], n, &fp4Bytes[0])
	default:
		d := rowScale(row) / (2 * e2m1Times)
		if n > 0 {
			k.nvfp4(&codes[0], &scales[0], &row[0], n, &e2m1Bytes[0], &e4m3Scales[0][0], d)
		}
		for b := n * rowSteps / 16; b < len(codes)/16; b++ {
			block := row[9*b : 9*b+9]
			scales[b] = e4m3Scales[block[0]][0] * d
			for i, c := range block[1:] {
				codes[16*b+i], codes[16*b+8+i] = e2m1Bytes[c&15], e2m1Bytes[c>>4]
			}
		}
	}
}
