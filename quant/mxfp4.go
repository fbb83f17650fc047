package quant

import "math"

// MXFP4 (OCP Microscaling Formats 1.0): 32 numbers in 17 bytes, four-bit floats E2M1 under a power-of-two scale.
//
//	e   u8       E8M0 exponent: the scale is 2^(e−127)
//	qs  [16]u8   number j in the low half of byte j, number j+16 in the high half; sign, two exponent bits, one mantissa bit
//
// As in ggml, e = 255 (NaN in the OCP text) is an ordinary exponent.
const MXFP4 Format = 15

const mxfp4Bytes = 17

var _ = register(MXFP4, Descriptor{
	Name: "MXFP4", Block: 32, BlockBytes: mxfp4Bytes,
	GGUF:   &GGUFType{Tensor: 39, File: 38},
	bound:  bound{0.25, 0x1p-128, math.Inf(1)}, // 8 units, cut off at 6
	decode: decodeMXFP4, encode: encodeMXFP4,
})

// mxfp4Values are the E2M1 numbers times two, so that they are whole; mxfp4Scale halves the scale to match. Code 8,
// minus zero, decodes to plain zero.
var mxfp4Values = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func decodeMXFP4(dst []float32, src []byte) {
	for len(src) >= mxfp4Bytes {
		b := (*[mxfp4Bytes]byte)(src)
		decodeCodebook((*[32]float32)(dst), (*[16]byte)(b[1:]), mxfp4Scale(b[0]), &mxfp4Values)
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

// encodeMXFP4 chooses between the exponent that the OCP text gives, which cuts off what lies above six units, and the next,
// which does not, by the squared error.
func encodeMXFP4(dst []byte, src []float32) {
	for len(src) >= 32 {
		x, b := (*[32]float32)(src), (*[mxfp4Bytes]byte)(dst)
		_, exp := math.Frexp(float64(peak(x))) // the peak's magnitude lies in [2^(exp−1), 2^exp)
		e := byte(min(max(exp-3+127, 0), 254))
		if peak(x) == 0 {
			e = 0
		} else if mxfp4Loss(x, e+1) < mxfp4Loss(x, e) {
			e++
		}
		b[0] = e
		d := mxfp4Scale(e)
		for j := range 16 {
			b[1+j] = mxfp4Nearest(x[j]/d) | mxfp4Nearest(x[j+16]/d)<<4
		}
		src, dst = src[32:], dst[mxfp4Bytes:]
	}
}

func mxfp4Loss(x *[32]float32, e byte) (loss float64) {
	d := mxfp4Scale(e)
	for _, v := range x {
		off := float64(mxfp4Values[mxfp4Nearest(v/d)]*d) - float64(v)
		loss += float64(off * off)
	}
	return loss
}

// mxfp4Nearest is the code nearest to v, in half units; of two, the one whose mantissa bit is zero.
func mxfp4Nearest(v float32) byte {
	m := max(v, -v)
	var code byte
	switch {
	case m <= 0.5:
		code = 0
	case m < 1.5:
		code = 1
	case m <= 2.5:
		code = 2
	case m < 3.5:
		code = 3
	case m <= 5:
		code = 4
	case m < 7:
		code = 5
	case m <= 10:
		code = 6
	default:
		code = 7
	}
	if v < 0 {
		code |= 8
	}
	return code
}
