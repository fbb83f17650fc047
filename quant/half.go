package quant

import "math"

// F16ToF32 widens an IEEE 754 binary16 number. It is exact; a NaN keeps its payload and becomes quiet.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	mant := uint32(h & 0x3ff)
	switch exp {
	case 0: // zero or subnormal: mant × 2⁻²⁴, which float32 holds as a normal number
		return math.Float32frombits(sign | math.Float32bits(float32(mant)*0x1p-24))
	case 0x1f:
		if mant != 0 {
			mant |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | mant<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | mant<<13)
}

// F32ToF16 narrows to IEEE 754 binary16, rounding to nearest, ties to even, also in the subnormal range. Magnitudes
// of 65520 and more become infinite; a NaN stays a (quiet) NaN.
func F32ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits & 0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13)&0x1ff
	case abs >= 0x477ff000: // 65520, half way from the largest binary16 to 2¹⁶
		return sign | 0x7c00
	case abs < 0x38800000: // below 2⁻¹⁴: at ½ one float32 ulp is 2⁻²⁴, so this addition rounds as binary16 would
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-0x3f000000)
	}
	abs += 0xfff + abs>>13&1 // to nearest, ties to even; a carry into the exponent is the right answer
	return sign | uint16((abs-112<<23)>>13)
}

// BF16ToF32 widens a bfloat16 number: the upper half of a float32. It is exact.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 narrows to bfloat16, rounding to nearest, ties to even, also in the subnormal range. A magnitude that
// rounds past the largest bfloat16 becomes infinite; a NaN stays a (quiet) NaN.
func F32ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
