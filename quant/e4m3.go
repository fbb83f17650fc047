package quant

import "math"

// F32ToE4M3 rounds x to an eight-bit float with 4 bits of exponent and 3 of mantissa, to nearest, ties to even. What is larger
// than 448, the largest there is, becomes 448; there are no infinities. Source: "FP8 Formats for Deep Learning", arXiv:2209.05433.
func F32ToE4M3(x float32) byte {
	bits := math.Float32bits(x)
	sign, abs := byte(bits>>24&0x80), math.Float32frombits(bits&0x7fffffff)
	switch {
	case abs != abs:
		return sign | 0x7f
	case abs >= 448:
		return sign | 0x7e
	case abs < 1./64: // below the smallest normal number, in steps of 2⁻⁹
		return sign | byte(math.RoundToEven(float64(abs)*512))
	}
	rounded := math.Float32bits(abs)
	rounded += 1<<19 - 1 + rounded>>20&1
	return sign | byte(rounded>>20-(127-7)<<3)
}

// E4M3ToF32 is the exact value of such a float.
func E4M3ToF32(b byte) float32 { return e4m3Values[b] }

var e4m3Values = func() (all [256]float32) {
	for i := range all {
		all[i] = e4m3Value(byte(i))
	}
	return all
}()

func e4m3Value(b byte) float32 {
	exponent, mantissa := int(b>>3&15), float64(b&7)
	var x float64
	switch {
	case b&0x7f == 0x7f:
		return float32(math.NaN())
	case exponent == 0:
		x = mantissa / 512
	default:
		x = math.Ldexp(8+mantissa, exponent-10)
	}
	if b&0x80 != 0 {
		x = -x
	}
	return float32(x)
}
