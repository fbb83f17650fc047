package quant

// BF16: the upper half of a float32, little endian: 8 significant bits, the range of float32.

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
