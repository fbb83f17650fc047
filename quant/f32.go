package quant

import "math"

// F32: IEEE 754 binary32, little endian.

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(order.Uint32(src[4*i:]))
	}
}

func encodeF32(dst []byte, src []float32) {
	for i, v := range src {
		order.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}
