package quant

import (
	"math"
	"slices"
)

// pointGrid describes the formats IQ2 and IQ3 to their encoder: x = d·unit(scale)·sign·point, in super-blocks of 256.
type pointGrid struct {
	sub    int  // numbers that share a scale of four bits: 16 or 32
	size   int  // numbers of a point: 8 or 4
	even   bool // the number of minus signs of eight numbers is even
	points func() [][8]int8
	unit   func(scale int) float64
	pack   func(b []byte, p *pointBlock)
}

// pointBlock is a super-block as pointGrid encodes it, before packing.
type pointBlock struct {
	d      uint16 // f16
	scales [16]uint8
	index  [64]uint16 // of points
	signs  [32]uint8  // of eight numbers each, a bit for each that is negative
}

// bound is how far a number may be off, by the largest of its block. Signs that are made even turn the number that counts least.
func (g *pointGrid) bound() float64 {
	if g.even {
		return 2.2
	}
	return 1.3
}

// scaleTop is the largest scale.
const scaleTop = 15

// pointFit is a super-block with what its choices cost: of a run of numbers x ≥ 0 with weights w and a point p times a step t the error is
// Σwx² − 2t·cross + t²·square.
type pointFit struct {
	pointGrid
	grid          [][8]int8
	top           float64 // the largest number of a point
	x, w          [superBlock]float64
	levels        []int8    // that points have
	cross, square []float64 // of a run's points
	best          [64][]pointCost
}

// pointCost is what makes the cost of a point for a run.
type pointCost struct {
	point         uint16
	cross, square float64
}

// encoder is the encoder of blocks of some bytes, and that with importances.
func (g pointGrid) encoder(bytes int) (plain func(dst []byte, src []float32), weighted func(dst []byte, src, importance []float32)) {
	weighted = func(dst []byte, src, importance []float32) {
		f := newPointFit(g)
		for len(src) >= superBlock {
			p := f.encode((*[superBlock]float32)(src), part(importance, 0, superBlock))
			clear(dst[:bytes])
			order.PutUint16(dst, p.d)
			g.pack(dst, &p)
			src, dst, importance = src[superBlock:], dst[bytes:], rest(importance, superBlock)
		}
	}
	return func(dst []byte, src []float32) { weighted(dst, src, nil) }, weighted
}

func newPointFit(g pointGrid) *pointFit {
	f := &pointFit{pointGrid: g, grid: g.points()}
	f.cross, f.square = make([]float64, len(f.grid)), make([]float64, len(f.grid))
	for _, p := range f.grid {
		for _, v := range p[:g.size] {
			if !slices.Contains(f.levels, v) {
				f.levels = append(f.levels, v)
			}
		}
	}
	f.top = float64(slices.Max(f.levels))
	return f
}

// load takes a super-block apart into magnitudes and signs. Where minus signs must be even in number, the number whose error counts least gets the
// wrong sign, and is negative here.
func (f *pointFit) load(src *[superBlock]float32, importance []float32, p *pointBlock) {
	for i, v := range src {
		f.x[i] = float64(v)
	}
	for i := 0; i < superBlock; i += f.sub {
		errorWeights(f.w[i:i+f.sub], f.x[i:i+f.sub], part(importance, i, f.sub))
	}
	for i := range p.signs {
		x, w := f.x[8*i:8*i+8], f.w[8*i:8*i+8]
		count, least := 0, 0
		for j, v := range x {
			if v < 0 {
				p.signs[i] |= 1 << j
				x[j] = -v
				count++
			}
			if float64(w[j]*float64(x[j]*x[j])) < float64(w[least]*float64(x[least]*x[least])) {
				least = j
			}
		}
		if f.even && count%2 == 1 {
			p.signs[i] ^= 1 << least
			x[least] = -x[least]
		}
	}
	for run := range superBlock / f.size {
		f.envelope(run)
	}
}

// envelope finds, of a run's points, those that are the best for some step of those that may be tried, by falling step.
func (f *pointFit) envelope(run int) {
	x, w := f.x[run*f.size:][:f.size], f.w[run*f.size:][:f.size]
	var cross, square [8][64]float64 // of each number, by what a point has for it
	for j, v := range x {
		for _, level := range f.levels {
			wp := w[j] * float64(level)
			cross[j][level], square[j][level] = float64(wp*v), float64(wp*float64(level))
		}
	}
	for k := range f.grid {
		c, s := 0.0, 0.0
		for j, v := range f.grid[k][:f.size] {
			c += cross[j][v&63]
			s += square[j][v&63]
		}
		f.cross[k], f.square[k] = c, s
	}
	f.best[run] = lowerEnvelope(f.best[run][:0], f.cross, f.square, 0)
}

// lowerEnvelope appends, of points with these sums, those that cost least for some step, by falling step. first is the number of the first point.
func lowerEnvelope(best []pointCost, cross, square []float64, first uint16) []pointCost {
	// The least of step²·square − 2·step·cross passes from a point to one of larger square where the step falls to twice the slope between them.
	at := 0
	for k, s := range square {
		if s < square[at] || s == square[at] && cross[k] > cross[at] {
			at = k
		}
	}
	for at >= 0 {
		best = append(best, pointCost{first + uint16(at), cross[at], square[at]})
		next, slope := -1, 0.0
		for k, s := range square {
			if ds, dc := s-square[at], cross[k]-cross[at]; ds > 0 && dc > float64(slope*ds) {
				next, slope = k, dc/ds
			}
		}
		at = next
	}
	return best
}

// nearest finds the points of runs [from, to) for a step: what all cost, less Σwx², and the sums that the step which serves these points best is made
// of. index gets the points, if it is not nil.
func (f *pointFit) nearest(from, to int, step float64, index []uint16) (cost, cross, square float64) {
	if index != nil {
		index = index[from:]
	}
	return nearestOf(f.best[from:to], step, index)
}

// nearestOf is nearest among the points of each run.
func nearestOf(runs [][]pointCost, step float64, index []uint16) (cost, cross, square float64) {
	twice, step2 := 2*step, step*step
	for run, points := range runs {
		best, least := pointCost{}, math.Inf(1)
		for _, p := range points {
			if l := float64(step2*p.square) - float64(twice*p.cross); l < least {
				best, least = p, l
			}
		}
		cost, cross, square = cost+least, cross+best.cross, square+best.square
		if index != nil {
			index[run] = best.point
		}
	}
	return cost, cross, square
}

// stepOf looks for the step of the runs of a sub-block: for a range of them the points, and for these the step that serves them best.
func (f *pointFit) stepOf(from, to int) (step float64) {
	largest := 0.0
	for _, v := range f.x[from*f.size : to*f.size] {
		largest = max(largest, v)
	}
	gain := 0.0
	for i := range 12 {
		t := largest / f.top * (0.55 + 0.1*float64(i))
		if _, cross, square := f.nearest(from, to, t, nil); cross > 0 && float64(cross*cross)/square > gain {
			gain, step = float64(cross*cross)/square, cross/square
		}
	}
	return step
}

// encode finds scales and points of a super-block.
func (f *pointFit) encode(src *[superBlock]float32, importance []float32) (best pointBlock) {
	f.load(src, importance, &best)
	runs := f.sub / f.size
	var steps [16]float64
	largest := 0.0
	for i := range superBlock / f.sub {
		steps[i] = f.stepOf(i*runs, (i+1)*runs)
		largest = max(largest, steps[i])
	}
	if largest == 0 {
		for i := range best.signs { // all is zero, or nothing that counts is not
			best.signs[i] = 0
		}
		return best
	}
	least := math.Inf(1)
	try := func(d float64) (next float64) {
		p := pointBlock{d: f16Scale(d), signs: best.signs}
		d = float64(F16ToF32(p.d))
		sum, cross, square := 0.0, 0.0, 0.0
		for i := range superBlock / f.sub {
			cost := math.Inf(1)
			near := f.scaleNear(steps[i] / d)
			var c, s, unit float64
			for scale := max(near-1, 0); scale <= min(near+1, scaleTop); scale++ {
				u := f.unit(scale)
				if l, c1, s1 := f.nearest(i*runs, (i+1)*runs, d*u, nil); l < cost {
					cost, c, s, unit, p.scales[i] = l, c1, s1, u, uint8(scale)
				}
			}
			f.nearest(i*runs, (i+1)*runs, d*unit, p.index[:])
			sum, cross, square = sum+cost, cross+float64(unit*c), square+float64(float64(unit*unit)*s)
		}
		if sum < least {
			best, least = p, sum
		}
		return cross / square
	}
	d := largest / f.unit(scaleTop)
	next := try(d)
	try(0.92 * d)
	try(1.08 * d)
	if next > 0 {
		try(next)
	}
	return best
}

// scaleNear is the scale whose unit is nearest.
func (f *pointFit) scaleNear(unit float64) (scale int) {
	first, each := f.unit(0), f.unit(1)-f.unit(0)
	return int(clampRound((unit-first)/each, 0, scaleTop))
}
