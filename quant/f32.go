package quant

import "math"

// F32: IEEE 754 binary32, little endian.
const F32 Format = 1

var _ = register(F32, Descriptor{
	Name: "F32", Block: 1, BlockBytes: 4,
	GGUF: &GGUFType{Tensor: 0, File: 0}, DType: "F32",
	bound:  bound{0, 0, math.Inf(1)},
	decode: decodeF32, encode: encodeF32,
})

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
