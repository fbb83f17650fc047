package quant

import "encoding/binary"

// F16: IEEE 754 binary16, little endian: 11 significant bits, 6·10⁻⁸ to 65504.

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}
