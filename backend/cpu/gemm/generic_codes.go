package gemm

import (
	"encoding/binary"
	"math"
)

// codebooks are the values of the codes of the two layouts with a lookup table, plus 128: see tools/asm/gemm/layouts.go.
var codebooks = map[codeLayout][16]byte{
	layoutN4: {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
	layoutM4: {128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116},
}

// unpackGeneric turns blocks of codes of any layout into U8 (or S8: the codes are the same).
func unpackGeneric(f codeLayout, panel, w *byte, blocks int) {
	dst, src := bytesAt(panel, blocks*layoutU8.blockBytes()), bytesAt(w, blocks*f.blockBytes())
	for ; len(src) > 0; src, dst = src[f.blockBytes():], dst[layoutU8.blockBytes():] {
		for j := range 8 {
			for i := range planeBytes {
				dst[j*planeBytes+i] = f.code(src, j, i)
			}
		}
	}
}

// code is byte i of plane j once unpacked.
func (f codeLayout) code(src []byte, j, i int) byte {
	bit := func(plane, n int) byte { return src[plane*planeBytes+i] >> n & 1 }
	two := func(plane int) byte { return src[(plane+j/4)*planeBytes+i] >> (2 * (j % 4)) & 3 }
	four := func() byte { return src[j%4*planeBytes+i] >> (j / 4 * 4) & 15 }
	switch f {
	case layoutU4:
		return four() << 4
	case layoutU5:
		return four()<<3 | bit(4, j)<<7
	case layoutU6:
		return four()<<2 | two(4)<<6
	case layoutU3:
		return bit(2, j)<<7 | two(0)<<5
	case layoutU2:
		return two(0) << 6
	case layoutN4, layoutM4:
		return codebooks[f][four()]
	default:
		return src[j*planeBytes+i]
	}
}

func f32At(block []byte, at int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(block[at:]))
}

// quantizeQ8Generic rounds blocks of 32 activations to 127ths of their largest magnitude.
func quantizeQ8Generic(dst *byte, step int, src *float32, n int) {
	for b := range n {
		x, block := floatsAt(offsetFloats(src, 32*b), 32), bytesAt(offset(dst, b*step), q8BlockBytes)
		most := uint32(0) // of the magnitudes as integers, so that a NaN wins and shows in the scale
		for _, v := range x {
			most = max(most, math.Float32bits(v)&0x7fffffff)
		}
		largest, inverse := math.Float32frombits(most), float32(0)
		if largest != 0 {
			inverse = 127 / largest
		}
		var half [2]int32
		for i, v := range x {
			q := int8(max(-128, min(127, math.RoundToEven(float64(v*inverse)))))
			block[i] = byte(q)
			half[i/16] += int32(q)
		}
		scale := largest * float32(1./127)
		whole := half[0] + half[1]
		put := func(at int, v uint32) { binary.LittleEndian.PutUint32(block[at:], v) }
		put(q8Scale, math.Float32bits(scale))
		for i, sum := range []int32{whole, half[0], half[1]} {
			put(q8Bias+4*i, uint32(floatMagic-128*sum))
			put(q8Sum+4*i, math.Float32bits(scale*float32(sum)))
		}
		put(q8Sum+12, 0)
	}
}
