package quant

// F16: IEEE 754 binary16, little endian: 11 significant bits, 6·10⁻⁸ to 65504.

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
