package quant

import "math"

// This file finds scales for a run of numbers that share one: the search that the K formats and IQ4_NL build on. The
// numbers are float64 here so that the sums below can be subtracted from each other. Rounding is to nearest, ties to
// even; products are rounded before sums, so that every architecture finds the same codes.

// errorWeights says how much a squared error in each number counts: the importance, if there are any, or else its magnitude on top of the root
// mean square of all, so that large numbers count more and none counts for nothing.
func errorWeights(w, x []float64, importance []float32) {
	if importance != nil {
		for i, v := range importance {
			w[i] = float64(v)
		}
		return
	}
	sum := 0.0
	for _, v := range x {
		sum += float64(v * v)
	}
	rms := math.Sqrt(sum / float64(len(x)))
	for i, v := range x {
		w[i] = rms + math.Abs(v)
	}
}

// round rounds to nearest, ties to even, for |v| < 2⁵¹: above 2⁵² a float64 has no fraction left.
func round(v float64) float64 {
	const big = 1.5 * (1 << 52)
	return (v + big) - big
}

// clampRound rounds v to one of the whole numbers lo … hi.
func clampRound(v, lo, hi float64) float64 {
	v = round(v)
	if v < lo {
		return lo
	}
	if v > hi {
		return hi
	}
	return v
}

// inverse is 1/v, and 0 for 0: a step of nothing has code 0 only.
func inverse(v float64) float64 {
	if v == 0 {
		return 0
	}
	return 1 / v
}

// tiny tells a determinant that is zero but for rounding from a true one.
const tiny = 1e-9

// fitAffine looks for scale and floor, both ≥ 0, that make scale·q − floor with q in 0 … top come close to x. For a
// range of grids it rounds x to codes, and then solves for the scale and floor that serve those codes best (least
// squares, weighted by w).
func fitAffine(x, w []float64, top float64) (scale, floor float64) {
	lo, hi := 0.0, x[0]
	var sw, swx float64
	for i, v := range x {
		lo, hi = min(lo, v), max(hi, v)
		sw += w[i]
		swx += float64(w[i] * v)
	}
	if hi <= lo { // all alike, and not above zero
		return 0, -lo
	}
	gain := 0.0 // Σw·x² less the error: what a fit explains
	for step := -5; step <= 5; step++ {
		inv := (top + 0.2*float64(step)) / (hi - lo)
		var swq, swqq, swqx float64
		for i, v := range x {
			q := clampRound(float64((v-lo)*inv), 0, top)
			wq := w[i] * q
			swq += wq
			swqq += float64(wq * q)
			swqx += float64(wq * v)
		}
		s, b := swqx/swqq, 0.0
		if det := float64(sw*swqq) - float64(swq*swq); det > tiny*sw*swqq {
			s1 := (float64(sw*swqx) - float64(swx*swq)) / det
			if b1 := (swx - float64(s1*swq)) / sw; b1 < 0 {
				s, b = s1, b1
			}
		}
		if g := float64(s*swqx) + float64(b*swx); s > 0 && g > gain {
			gain, scale, floor = g, s, -b
		}
	}
	return scale, floor
}

// fitScale looks for a scale, of either sign, that makes scale·q with q in −top … top−1 come close to x.
func fitScale(x, w []float64, top float64) (scale float64) {
	peak := 0.0 // the number of largest magnitude; it belongs on −top, where there is one more code
	for _, v := range x {
		if math.Abs(v) > math.Abs(peak) {
			peak = v
		}
	}
	if peak == 0 {
		return 0
	}
	gain := 0.0
	for step := -4; step <= 4; step++ {
		inv := -(top + 0.25*float64(step)) / peak
		var swqq, swqx float64
		for i, v := range x {
			q := clampRound(float64(v*inv), -top, top-1)
			wq := w[i] * q
			swqq += float64(wq * q)
			swqx += float64(wq * v)
		}
		if g := float64(swqx*swqx) / swqq; swqq > 0 && g > gain {
			gain, scale = g, swqx/swqq
		}
	}
	return scale
}
