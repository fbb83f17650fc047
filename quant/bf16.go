package quant

import "encoding/binary"

// BF16: the upper half of a float32, little endian: 8 significant bits, the range of float32.

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}
