package quant

// F16: IEEE 754 binary16, little endian: 11 significant bits, 6·10⁻⁸ to 65504.
const F16 Format = 2

var _ = register(F16, Descriptor{
	Name: "F16", Block: 1, BlockBytes: 2,
	GGUF: &GGUFType{Tensor: 1, File: 1}, DType: "F16",
	bound:  bound{0x1p-11, 0x1p-25, 65520}, // half a unit of 11 bits; half of the smallest number; rounds to Inf
	decode: decodeF16, encode: encodeF16,
})

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = F16ToF32(order.Uint16(src[2*i:]))
	}
}

func encodeF16(dst []byte, src []float32) {
	for i, v := range src {
		order.PutUint16(dst[2*i:], F32ToF16(v))
	}
}
