package quant

// BF16: the upper half of a float32, little endian: 8 significant bits, the range of float32.
const BF16 Format = 3

var _ = register(BF16, Descriptor{
	Name: "BF16", Block: 1, BlockBytes: 2,
	GGUF: &GGUFType{Tensor: 30, File: 32}, DType: "BF16",
	bound:  bound{0x1p-8, 0x1p-134, 0x1.ffp127}, // likewise of 8 bits
	decode: decodeBF16, encode: encodeBF16,
})

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = BF16ToF32(order.Uint16(src[2*i:]))
	}
}

func encodeBF16(dst []byte, src []float32) {
	for i, v := range src {
		order.PutUint16(dst[2*i:], F32ToBF16(v))
	}
}
