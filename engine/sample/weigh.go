package sample

import "math"

// Weights are exp((logit - top) / temperature): 1 for the likeliest token. They are reckoned in 64ths of an octave
// below it, y ≥ 0, and come from a table: with n the integer nearest to y and f = n - y in [-½, ½],
//
//	weight = 2^(-y/64) = 2^(-n/64) · e^(f·ln 2/64)
//
// where three terms of e's series leave a relative error below 3e-8, half a float32's last place.
const (
	perOctave = 64                    // table entries per factor of two
	octaves   = 64                    // weights below 2^-64 count as zero: no draw will ever meet them
	steps     = perOctave * octaves   // entries of the table; y is below that
	perUnit   = perOctave / math.Ln2  // table entries per factor of e
	linear    = 1 / perUnit           // the series' second term, for f
	square    = linear * linear * 0.5 // and its third
)

// roots[n] is 2^(-n/64).
var roots = func() (table [steps + 1]float64) {
	for n := range table {
		table[n] = math.Exp2(-float64(n) / perOctave)
	}
	return
}()

// weight is the weight at y in [0, steps].
func weight(y float64) float64 {
	n := int(y + 0.5)
	f := float64(n) - y
	return roots[n] * (1 + f*(linear+f*square))
}

// scaling turns logits into y.
type scaling struct {
	top   float32
	slope float64 // y per logit
}

func newScaling(top float32, temperature float64) scaling {
	return scaling{top, perUnit / temperature}
}

func (s scaling) y(logit float32) float64 { return (float64(s.top) - float64(logit)) * s.slope }

// below is a logit just under the one at y, so that rounding loses no token that is there.
func (s scaling) below(y float64) float32 {
	return math.Nextafter32(float32(float64(s.top)-y/s.slope), float32(math.Inf(-1)))
}

// histogram counts a row's tokens by weight: entry n is those with y in [n, n+1). Counting takes a third of the time
// of weighing, and says how far down the row the tokens are that have to be weighed.
type histogram [steps]int32

// count fills the histogram. It leaves out NaN and what has no weight.
func (h *histogram) count(logits []float32, s scaling) {
	clear(h[:])
	slope := float32(s.slope)
	for _, x := range logits {
		if y := (s.top - x) * slope; y < steps { // so written that NaN is left out too
			h[uint32(y)%steps]++
		}
	}
}

// tokensWeighed is how many tokens are always weighed one by one. The others' mass is taken from the histogram: each
// is off by 0.5 % at most, above or below by chance, so that n of them, each lighter than a thousand others, are off
// by 0.3 %/√n of their own mass: less than 1e-4 of the row's at worst, and 1e-6 as a rule.
const tokensWeighed = 1024

// cut returns a y such that the tokens above have at least the given part of the row's mass and are at least
// tokensWeighed, or all; and the mass of those below.
func (h *histogram) cut(part float64) (y, rest float64) {
	const middle = (1 - 1/1.0108892860517005) / linear // the mean weight in [n, n+1), for evenly spread y, over roots[n]
	for n, count := range h {
		rest += float64(count) * roots[n] * middle
	}
	bound := rest * (1 - part)
	tokens := 0
	for n, count := range h {
		if rest <= bound && tokens >= tokensWeighed {
			return float64(n), rest
		}
		tokens += int(count)
		rest -= float64(count) * roots[n] * middle
	}
	return steps, 0
}
