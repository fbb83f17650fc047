package quant

import (
	"encoding/binary"
	"math"
)

// F32: IEEE 754 binary32, little endian.

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}
