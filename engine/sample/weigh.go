package sample

import "math"

// Weights are exp((logit - max) / temperature): 1 for the likeliest token. Taking 128k exponentials is what sampling
// costs, so they come from a table. With y = (logit - max) / temperature in 64ths of an octave, n = -round(y) and
// f = y + n in [-½, ½],
//
//	weight = 2^(y/64) = 2^(-n/64) · e^(f·ln 2/64)
//
// where three terms of e's series leave a relative error below 3e-8, half a float32's last place.
const (
	perOctave = 64                    // table entries per factor of two
	octaves   = 64                    // weights below 2^-64 count as zero: no draw will ever meet them
	steps     = perOctave * octaves   // entries of the table
	perUnit   = perOctave / math.Ln2  // table entries per factor of e
	linear    = 1 / perUnit           // the series' second term, for f
	square    = linear * linear * 0.5 // and its third
	perBucket = 8                     // table entries per bucket of the histogram
	faintest  = -(steps - perBucket)  // the lowest y that has a weight
)

// roots[n] is 2^(-n/64).
var roots = func() (table [steps]float64) {
	for n := range table {
		table[n] = math.Exp2(-float64(n) / perOctave)
	}
	return
}()

// round, added to a float64 of magnitude below 2^31, leaves its nearest integer in the low 32 bits of the sum.
const round = 3 << 51

// weigh returns the table's entry for y, which is in [faintest, 0], and the weight.
func weigh(y float64) (n uint32, weight float64) {
	t := y + round
	f := y - (t - round)
	n = uint32(-int32(math.Float64bits(t))) % steps
	return n, roots[n] * (1 + f*(linear+f*square))
}

// scaling turns logits into y.
type scaling struct {
	slope, zero float64
}

// newScaling is the scaling of a row whose largest logit is top.
func newScaling(top float32, temperature float64) scaling {
	slope := perUnit / temperature
	return scaling{slope: slope, zero: float64(top) * slope}
}

func (s scaling) y(logit float32) float64 { return float64(logit)*s.slope - s.zero }

// below returns a logit just under the one that y stands for, so that rounding loses no token that is at y.
func (s scaling) below(y float64) float32 {
	return math.Nextafter32(float32((y+s.zero)/s.slope), float32(math.Inf(-1)))
}

// histogram is the mass of a row by weight: entry b is that of the tokens whose weight is about 2^(-b/8). It tells
// how far down a filter has to look, before any token is collected or sorted.
type histogram [steps / perBucket]float64

// fill weighs a row and returns its mass. NaN weighs nothing.
func (h *histogram) fill(logits []float32, s scaling) (mass float64) {
	clear(h[:])
	for _, x := range logits {
		y := s.y(x)
		if !(y >= faintest) { // so written that NaN is left out too
			continue
		}
		n, w := weigh(y)
		h[n/perBucket] += w
	}
	for _, sum := range h {
		mass += sum
	}
	return mass
}

// reach returns a y such that the tokens from there up have at least that mass, and few more.
func (h *histogram) reach(mass float64) float64 {
	for b, sum := range h {
		if mass -= sum; mass <= 0 {
			return -float64((b + 1) * perBucket) // half an entry more than the bucket holds, for rounding's sake
		}
	}
	return faintest
}
