package quant

import "math"

// NVFP4_ROW: rows of blocks of 16 numbers in 9 bytes, four-bit floats E2M1 under an e4m3 scale, with one scale for all of the row: what
// compressed-tensors' and ModelOpt's NVFP4 checkpoints hold, whose second scale is a tensor's. (NVIDIA, "Introducing NVFP4".)
//
//	s   u8      e4m3 scale; x = d·s·e2m1[q]
//	qs  [8]u8   number j in the low half of byte j, number j+8 in the high half; sign, two exponent bits, one mantissa bit
//	d   f32     behind the row's blocks
const NVFP4_ROW Format = 25

const (
	nvfp4RowBlock = 16
	nvfp4RowBytes = 9
)

var _ = register(NVFP4_ROW, Descriptor{
	Name: "NVFP4_ROW", Block: nvfp4RowBlock, BlockBytes: nvfp4RowBytes, FloatCodes: true, RowScale: true, Fallback: Q8_0,
	bound:  bound{0.2, minRowPeak, 0x1.ffp127}, // half a step of 2 at 6, and half a step of the scale, of the row's largest
	decode: decodeNVFP4Row, encode: encodeNVFP4Row,
})

func decodeNVFP4Row(dst []float32, src []byte) {
	d := math.Float32frombits(order.Uint32(src[len(src)-4:]))
	for len(dst) > 0 {
		s := e4m3Values[src[0]] * d / 2 // mxfp4Values are twice the numbers
		for j, q := range src[1:nvfp4RowBytes] {
			dst[j] = mxfp4Values[q&15] * s
			dst[j+8] = mxfp4Values[q>>4] * s
		}
		src, dst = src[nvfp4RowBytes:], dst[nvfp4RowBlock:]
	}
}

// encodeNVFP4Row gives the row's largest magnitude the largest scale, 448, and code 6.
func encodeNVFP4Row(dst []byte, src []float32) {
	peakOf := func(x []float32) (peak float32) {
		for _, v := range x {
			peak = max(peak, v, -v)
		}
		return peak
	}
	d := peakOf(src) / (448 * 6)
	if d < minRowPeak {
		d = 0
	}
	order.PutUint32(dst[len(dst)-4:], math.Float32bits(d))
	for len(src) > 0 {
		x := src[:nvfp4RowBlock]
		dst[0] = F32ToE4M3(peakOf(x) / 6 * inverse32(d))
		inv := 2 * inverse32(e4m3Values[dst[0]]*d)
		for j := range 8 {
			dst[1+j] = mxfp4Nearest(x[j]*inv) | mxfp4Nearest(x[j+8]*inv)<<4
		}
		src, dst = src[nvfp4RowBlock:], dst[nvfp4RowBytes:]
	}
}
