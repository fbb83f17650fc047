package quant

import "math"

// FP8 and INT8: rows of codes of eight bits, with one scale for all of a row.
//
//	codes [n]u8   e4m3 of "FP8 Formats for Deep Learning", arXiv:2209.05433, or two's complement
//	d     f32     scale; x = d·code
//
// They are made of floats as weights are loaded, as vLLM makes them: the largest magnitude of a row becomes 448 or 127. A product of two
// such rows is a product of codes, times both scales, which is how tensor cores multiply them. (ggml has no such formats.)

// minRowPeak is the least largest magnitude of a row that has a scale whose inverse is a float; rows below it become zeros.
const minRowPeak = 0x1p-116

// FP8 is rows of e4m3.
const FP8 Format = 16

var _ = register(FP8, Descriptor{
	Name: "FP8", Block: 16, BlockBytes: 16, RowScale: true, FloatCodes: true,
	bound:  bound{0.0358, minRowPeak, 0x1.ffp127}, // half a step of 32 at 448
	decode: decodeFP8, encode: encodeFP8,
})

// EncodeFP8 rounds x to e4m3, to nearest, ties to even, after scaling the largest magnitude to 448, and returns the scale. A row with a
// NaN has a NaN for its scale.
func EncodeFP8(dst []byte, x []float32) (scale float32) {
	var largest float32
	for _, v := range x {
		largest = max(largest, v, -v)
	}
	if largest < minRowPeak {
		clear(dst[:len(x)])
		return 0
	}
	inverse := 448 / largest
	for i, v := range x {
		dst[i] = F32ToE4M3(v * inverse)
	}
	return largest * float32(1./448)
}

func encodeFP8(dst []byte, src []float32) {
	order.PutUint32(dst[len(src):], math.Float32bits(EncodeFP8(dst, src)))
}

func decodeFP8(dst []float32, src []byte) {
	d := math.Float32frombits(order.Uint32(src[len(dst):]))
	for i := range dst {
		dst[i] = e4m3Values[src[i]] * d
	}
}

// INT8 is rows of signed bytes.
const INT8 Format = 17

var _ = register(INT8, Descriptor{
	Name: "INT8", Block: 16, BlockBytes: 16, RowScale: true,
	bound:  bound{0.00394, minRowPeak, 0x1.ffp127}, // half a step of 1/127
	decode: decodeINT8, encode: encodeINT8,
})

func encodeINT8(dst []byte, src []float32) {
	codes := make([]int8, len(src))
	order.PutUint32(dst[len(src):], math.Float32bits(EncodeInt8(codes, src)))
	for i, c := range codes {
		dst[i] = byte(c)
	}
}

func decodeINT8(dst []float32, src []byte) {
	d := math.Float32frombits(order.Uint32(src[len(dst):]))
	for i := range dst {
		dst[i] = float32(int8(src[i])) * d
	}
}

// ScaleRow writes a row of f, of a tensor with a scale of its own, as one of the format that f's descriptor calls Scaled.
func ScaleRow(f Format, dst, row []byte, scale float32) { descriptors[f].scale(dst, row, scale) }
