package quant

import "math"

// Keys and values in four bits (KIVI, Liu et al., arXiv:2402.02750): the numbers that Int4Group tokens have in one channel of the keys share a scale and a minimum, and of
// a token's values those of Int4Run channels of a head. x = scale·code + minimum, codes 0 to 15.
const (
	Int4Group      = 32 // tokens
	Int4RangeBytes = 4  // of a scale and a minimum, both in F16
	int4Most       = 15
)

// Int4Run is how many numbers of a head of values share a scale: those of heads that do not divide into groups all do.
func Int4Run(size int) int {
	if size%Int4Group == 0 {
		return Int4Group
	}
	return size
}

// Int4Range is a scale and a minimum.
type Int4Range struct{ Scale, Min uint16 }

// Int4RangeOf is that of n numbers, x[0], x[step] and so on.
func Int4RangeOf(x []float32, n, step int) Int4Range {
	low, high := x[0], x[0]
	for i := 1; i < n; i++ {
		low, high = min(low, x[i*step]), max(high, x[i*step])
	}
	return Int4Range{Scale: F32ToF16((high - low) / int4Most), Min: F32ToF16(low)}
}

// Floats are the numbers that they stand for.
func (r Int4Range) Floats() (scale, minimum float32) { return F16ToF32(r.Scale), F16ToF32(r.Min) }

// Code is the code that is nearest to x.
func (r Int4Range) Code(x float32) byte {
	scale, minimum := r.Floats()
	if q := math.RoundToEven(float64((x - minimum) / scale)); q > 0 { // it is not if x is NaN
		return byte(math.Min(q, int4Most))
	}
	return 0
}
