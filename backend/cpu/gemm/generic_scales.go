package gemm

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// scalesGeneric expands packed scales, one function for each layout of scaleID.
var scalesGeneric = [scaleCount]scaleFunc{
	scaleHalf: func(dst, _ *float32, src *byte, n int, _ uintptr, mul, _ float32) {
		for i := range n * Granule {
			*offsetFloats(dst, i) = half(src, i) * mul
		}
	},
	scaleHalfMin: func(dst, mins *float32, src *byte, n int, _ uintptr, mul, off float32) {
		for b := range n {
			from := offset(src, b*4*Granule)
			for r := range Granule {
				d, m := half(from, r), half(from, Granule+r)
				*offsetFloats(dst, b*Granule+r) = d * mul
				*offsetFloats(mins, b*Granule+r) = m + d*off
			}
		}
	},
	scaleE8: func(dst, _ *float32, src *byte, n int, _ uintptr, mul, _ float32) {
		for i, e := range bytesAt(src, n*Granule) {
			*offsetFloats(dst, i) = math.Float32frombits(uint32(e)<<23) * mul
		}
	},
	scaleK4: superBlocks(8, 2*Granule, 12, func(line func(int) byte, sub int) (sc, min int) {
		if sub < 4 {
			return int(line(sub) & 63), int(line(sub+4) & 63)
		}
		return int(line(sub+4)&15 | line(sub-4)>>6<<4), int(line(sub+4)>>4 | line(sub)>>6<<4)
	}),
	scaleK6: superBlocks(16, Granule, 16, func(line func(int) byte, sub int) (sc, min int) {
		return int(int8(line(sub))), 0
	}),
	scaleK3: superBlocks(16, Granule, 12, func(line func(int) byte, sub int) (sc, min int) {
		return int(line(sub%8)>>(sub/8*4)&15|line(8+sub%4)>>(sub/4*2)&3<<4) - 32, 0
	}),
	scaleK2: superBlocks(16, 2*Granule, 16, func(line func(int) byte, sub int) (sc, min int) {
		return int(line(sub) & 15), int(line(sub) >> 4)
	}),
}

// superBlocks expands the scales of a K format: `floats` half floats (d, and dmin if there are two for each row), then
// `lines` lines of 32 bytes, out of which code reads the scale and minimum of a sub-block.
func superBlocks(subs, floats, lines int, code func(line func(int) byte, sub int) (sc, min int)) scaleFunc {
	return func(dst, mins *float32, src *byte, n int, _ uintptr, mul, off float32) {
		size := 2*floats + lines*Granule
		for b := range n {
			d := offset(src, b*size)
			packed := bytesAt(offset(d, 2*floats), lines*Granule)
			for i := range subs * Granule {
				r, at := i%Granule, b*subs*Granule+i
				sc, m := code(func(l int) byte { return packed[l*Granule+r] }, i/Granule)
				scale := half(d, r) * float32(sc)
				*offsetFloats(dst, at) = scale * mul
				if floats > Granule {
					*offsetFloats(mins, at) = scale*off - half(d, Granule+r)*float32(m)
				}
			}
		}
	}
}

// half is the half float i at src.
func half(src *byte, i int) float32 {
	return quant.F16ToF32(binary.LittleEndian.Uint16(bytesAt(offset(src, 2*i), 2)))
}
