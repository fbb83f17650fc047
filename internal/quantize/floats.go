package quantize

import (
	"encoding/binary"
	"math"
)

func putFloat(dst []byte, x float32) { binary.LittleEndian.PutUint32(dst, math.Float32bits(x)) }

func getFloat(src []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(src)) }
