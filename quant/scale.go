package quant

import "math"

// This file holds what the encoders of the 32-number blocks share. They round to nearest, ties to even, against the scale
// as it is stored (not as it was before narrowing to f16), and so lose nothing to its rounding.

// f16Scale narrows a scale to f16: to nearest, but where f16 has few bits left (below 2⁻¹⁴) away from zero, because
// codes times a scale that is too small do not reach the largest number. It does not go past the largest finite number.
func f16Scale(v float64) uint16 {
	v = min(max(v, -f16Max), f16Max)
	h := F32ToF16(float32(v))
	switch {
	case v == 0:
		return 0
	case h&0x7c00 == 0 && math.Abs(float64(F16ToF32(h))) < math.Abs(v):
		return h + 1
	}
	return h
}

// putScale stores scale as f16 at b[0:2] and returns the inverse of what it stored; 0 for 0.
func putScale(b []byte, scale float32) (inv float32) {
	h := f16Scale(float64(scale))
	order.PutUint16(b, h)
	if d := F16ToF32(h); d != 0 {
		return 1 / d
	}
	return 0
}

// peak is the number of largest magnitude, the first of several, with its sign.
func peak(x *[32]float32) float32 {
	best, magnitude := float32(0), float32(0)
	for _, v := range x {
		if m := max(v, -v); m > magnitude {
			best, magnitude = v, m
		}
	}
	return best
}

// nearest is the whole number nearest to v, ties to even, of those from lo to hi; |v| is below 2²².
func nearest(v, lo, hi float32) int {
	const big = 1.5 * (1 << 23) // float32 numbers around it have no fraction
	v = (v + big) - big
	return int(min(max(v, lo), hi))
}

// putRange stores the step and the floor of a block whose codes run from 0 to top, as f16 at b[0:2] and b[2:4], and
// returns the floor and the inverse of the step as stored.
func putRange(b []byte, x *[32]float32, top float32) (floor, inv float32) {
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	h := F32ToF16(lo)
	order.PutUint16(b[2:], h)
	floor = F16ToF32(h)
	return floor, putScale(b, max(hi-floor, 0)/top)
}
