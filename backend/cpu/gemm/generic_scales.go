package gemm

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// scalesGeneric expands packed scales, one function for each layout of scaleLayout.
var scalesGeneric = [scaleCount]scaleFunc{
	scaleF16: func(dst, _ *float32, src *byte, n int, _ uintptr, mul, _ float32) {
		for i := range n * NR {
			*offsetFloats(dst, i) = f16At(src, i) * mul
		}
	},
	scaleF16Min: func(dst, mins *float32, src *byte, n int, _ uintptr, mul, off float32) {
		for b := range n {
			from := offset(src, b*4*NR)
			for r := range NR {
				d, m := f16At(from, r), f16At(from, NR+r)
				*offsetFloats(dst, b*NR+r) = d * mul
				*offsetFloats(mins, b*NR+r) = m + d*off
			}
		}
	},
	scaleF16Zero: func(dst, mins *float32, src *byte, n int, _ uintptr, mul, off float32) {
		for b := range n {
			from := offset(src, b*4*NR)
			for r := range NR {
				d, z := f16At(from, r), f16At(from, NR+r)
				*offsetFloats(dst, b*NR+r) = d * mul
				*offsetFloats(mins, b*NR+r) = d * (off - z)
			}
		}
	},
	scaleE8: func(dst, _ *float32, src *byte, n int, _ uintptr, mul, _ float32) {
		for i, e := range bytesAt(src, n*NR) {
			*offsetFloats(dst, i) = math.Float32frombits(uint32(e)<<23) * mul
		}
	},
	scaleK4: superBlocks(8, 2*NR, 12, func(row func(int) byte, sub int) (sc, min int) {
		if sub < 4 {
			return int(row(sub) & 63), int(row(sub+4) & 63)
		}
		return int(row(sub+4)&15 | row(sub-4)>>6<<4), int(row(sub+4)>>4 | row(sub)>>6<<4)
	}),
	scaleK6: superBlocks(16, NR, 16, func(row func(int) byte, sub int) (sc, min int) {
		return int(int8(row(sub))), 0
	}),
	scaleK3: superBlocks(16, NR, 12, func(row func(int) byte, sub int) (sc, min int) {
		return int(row(sub%8)>>(sub/8*4)&15|row(8+sub%4)>>(sub/4*2)&3<<4) - 32, 0
	}),
	scaleXS: superBlocks(8, NR, 6, func(row func(int) byte, sub int) (sc, min int) {
		return int(row(2+sub/2)>>(sub%2*4)&15|row(sub/4)>>(sub%4*2)&3<<4) - 32, 0
	}),
	scaleK2: superBlocks(16, 2*NR, 16, func(row func(int) byte, sub int) (sc, min int) {
		return int(row(sub) & 15), int(row(sub) >> 4)
	}),
}

// superBlocks expands the scales of a K-quant: `floats` f16 (d, and dmin if there are two for each row), then
// `rows` rows of 32 bytes, out of which code reads the scale and minimum of a sub-block.
func superBlocks(subs, floats, rows int, code func(row func(int) byte, sub int) (sc, min int)) scaleFunc {
	return func(dst, mins *float32, src *byte, n int, _ uintptr, mul, off float32) {
		size := 2*floats + rows*NR
		for b := range n {
			d := offset(src, b*size)
			packed := bytesAt(offset(d, 2*floats), rows*NR)
			for i := range subs * NR {
				r, at := i%NR, b*subs*NR+i
				sc, m := code(func(l int) byte { return packed[l*NR+r] }, i/NR)
				scale := f16At(d, r) * float32(sc)
				*offsetFloats(dst, at) = scale * mul
				if floats > NR {
					*offsetFloats(mins, at) = scale*off - f16At(d, NR+r)*float32(m)
				}
			}
		}
	}
}

// f16At is the half float i at src.
func f16At(src *byte, i int) float32 {
	return quant.F16ToF32(binary.LittleEndian.Uint16(bytesAt(offset(src, 2*i), 2)))
}
