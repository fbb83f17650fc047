package quant

import "math"

// MXFP4 (OCP Microscaling Formats 1.0): 32 numbers in 17 bytes, four-bit floats E2M1 under a power-of-two scale.
//
//	e   u8       E8M0 exponent: the scale is 2^(e−127)
//	qs  [16]u8   number j in the low half of byte j, number j+16 in the high half; sign, two exponent bits, one mantissa bit
//
// As in ggml, e = 255 (NaN in the OCP text) is an ordinary exponent.
const mxfp4Bytes = 17

// mxfp4Levels are the E2M1 numbers times two, so that they are whole; mxfp4Scale halves the scale in turn. Code 8,
// minus zero, decodes to plain zero.
var mxfp4Levels = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func decodeMXFP4(dst []float32, src []byte) {
	for len(src) >= mxfp4Bytes {
		b := (*[mxfp4Bytes]byte)(src)
		decodeLevels((*[32]float32)(dst), (*[16]byte)(b[1:]), mxfp4Scale(b[0]), &mxfp4Levels)
		src, dst = src[mxfp4Bytes:], dst[32:]
	}
}

// mxfp4Scale is 2^(e−128), half of the E8M0 scale; the two smallest are subnormal.
func mxfp4Scale(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}
