package testkit

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/ridge-llm/ridge/quant"
)

// halfAt is where the f16 scale of a block lies, in formats that can be read but not written.
var halfAt = map[quant.Format]int{
	quant.IQ1_S: 0, quant.IQ2_XXS: 0, quant.IQ2_XS: 0, quant.IQ2_S: 0, quant.IQ3_XXS: 0, quant.IQ3_S: 0, quant.TQ1_0: 52, quant.TQ2_0: 64,
}

// RandomBlocks fills data with blocks of a format that can be read but not written: random codes under scales that are not extreme.
func RandomBlocks(rnd *rand.Rand, f quant.Format, data []byte) {
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	for b := data; len(b) > 0; b = b[f.BlockBytes():] {
		at, half := halfAt[f]
		switch {
		case half:
			binary.LittleEndian.PutUint16(b[at:], quant.F32ToF16(float32(rnd.NormFloat64()/64)))
		case f == quant.IQ1_M: // its f16 is in four high nibbles, the last with sign and exponent
			b[55] = b[55]&15 | 0x20
		case f == quant.NVFP4:
			for i := range 4 {
				b[i] = byte(16 + rnd.IntN(24))
			}
		}
	}
}
