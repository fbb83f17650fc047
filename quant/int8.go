package quant

import "math"

// EncodeInt8 rounds x to signed bytes that count 127ths of its largest magnitude, to nearest, ties to even, and returns
// what one of them stands for. It is how keys and values are kept in a cache of bytes: a scale a head.
func EncodeInt8(dst []int8, x []float32) (scale float32) {
	var largest float32
	for _, v := range x {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest < minRowPeak {
		clear(dst[:len(x)])
		return 0
	}
	inverse := 127 / largest
	for i, v := range x {
		dst[i] = int8(math.RoundToEven(float64(v * inverse)))
	}
	return largest * float32(1./127)
}
