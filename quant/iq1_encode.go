package quant

import "math"

// movedGrid describes IQ1_S and IQ1_M to their encoder: x = d·(1 + 2·scale)·(point + move), moves of an eighth up or down, scales of three bits.
type movedGrid struct {
	sub      int  // numbers that share a scale: 32 or 16
	together bool // they share a move too; else eight numbers have one
	pack     func(b []byte, p *movedBlock)
}

const (
	movedTop = 7 // the largest scale
	movedBy  = 0.125
	movedBit = 2048 // of a point's index: it is moved down
)

var (
	gridIQ1_S = movedGrid{sub: 32, together: true, pack: packIQ1_S}
	gridIQ1_M = movedGrid{sub: 16, pack: packIQ1_M}
)

// movedBlock is a super-block before packing.
type movedBlock struct {
	d      uint16 // f16
	scales [16]uint8
	index  [32]uint16 // of points, with movedBit
}

// movedFit is a super-block with what its choices cost: see pointFit. Of numbers that share a move there are two lists of points, one for each move, and else one of both.
type movedFit struct {
	movedGrid
	x, w          [superBlock]float64
	cross, square []float64
	best          [2][superBlock / 8][]pointCost
}

// encoder is the encoder of blocks of some bytes, and that with importances.
func (g movedGrid) encoder(bytes int) (plain func(dst []byte, src []float32), weighted func(dst []byte, src, importance []float32)) {
	weighted = func(dst []byte, src, importance []float32) {
		f := &movedFit{movedGrid: g, cross: make([]float64, 2*movedBit), square: make([]float64, 2*movedBit)}
		for len(src) >= superBlock {
			p := f.encode((*[superBlock]float32)(src), part(importance, 0, superBlock))
			clear(dst[:bytes])
			g.pack(dst, &p)
			src, dst, importance = src[superBlock:], dst[bytes:], rest(importance, superBlock)
		}
	}
	return func(dst []byte, src []float32) { weighted(dst, src, nil) }, weighted
}

// described is a format's descriptor with its encoder.
func (g movedGrid) described(d Descriptor) Descriptor {
	d.encode, d.weighted = g.encoder(d.BlockBytes)
	d.bound = bound{1.5, 0x1p-15, 15 * f16Max}
	return d
}

// lists is how many lists of points a sub-block chooses between.
func (g *movedGrid) lists() int {
	if g.together {
		return 2
	}
	return 1
}

// load finds, of each eight numbers, the points that are the best for some step.
func (f *movedFit) load(src *[superBlock]float32, importance []float32) {
	for i, v := range src {
		f.x[i] = float64(v)
	}
	for i := 0; i < superBlock; i += f.sub {
		errorWeights(f.w[i:i+f.sub], f.x[i:i+f.sub], part(importance, i, f.sub))
	}
	grid := iq1Grid()
	for run := range superBlock / 8 {
		x, w := f.x[8*run:][:8], f.w[8*run:][:8]
		for down, move := range []float64{movedBy, -movedBy} {
			cross, square := f.cross[down*movedBit:][:movedBit], f.square[down*movedBit:][:movedBit]
			for k := range grid {
				c, s := 0.0, 0.0
				for j, level := range grid[k] {
					v := float64(level) + move
					wv := float64(w[j] * v)
					c += float64(wv * x[j])
					s += float64(wv * v)
				}
				cross[k], square[k] = c, s
			}
			if f.together {
				f.best[down][run] = lowerEnvelope(f.best[down][run][:0], cross, square, uint16(down*movedBit))
			}
		}
		if !f.together {
			f.best[0][run] = lowerEnvelope(f.best[0][run][:0], f.cross, f.square, 0)
		}
	}
}

// nearest finds the points of a sub-block for a step, of the better of its lists: see pointFit.nearest.
func (f *movedFit) nearest(sub int, step float64, index []uint16) (cost, cross, square float64) {
	runs, list := f.sub/8, 0
	cost = math.Inf(1)
	for l := range f.lists() {
		if c, x, s := nearestOf(f.best[l][sub*runs:(sub+1)*runs], step, nil); c < cost {
			cost, cross, square, list = c, x, s, l
		}
	}
	if index != nil {
		nearestOf(f.best[list][sub*runs:(sub+1)*runs], step, index[sub*runs:])
	}
	return cost, cross, square
}

// stepOf looks for the step of a sub-block: see pointFit.stepOf.
func (f *movedFit) stepOf(sub int) (step float64) {
	largest := 0.0
	for _, v := range f.x[sub*f.sub:][:f.sub] {
		largest = max(largest, math.Abs(v))
	}
	gain := 0.0
	for i := range 16 {
		t := largest * (0.3 + 0.07*float64(i))
		if _, cross, square := f.nearest(sub, t, nil); cross > 0 && float64(cross*cross)/square > gain {
			gain, step = float64(cross*cross)/square, cross/square
		}
	}
	return step
}

// encode finds scales, moves and points of a super-block.
func (f *movedFit) encode(src *[superBlock]float32, importance []float32) (best movedBlock) {
	f.load(src, importance)
	var steps [16]float64
	largest := 0.0
	subs := superBlock / f.sub
	for i := range subs {
		steps[i] = f.stepOf(i)
		largest = max(largest, steps[i])
	}
	if largest == 0 {
		return best
	}
	least := math.Inf(1)
	try := func(d float64) (next float64) {
		p := movedBlock{d: f16Scale(d)}
		d = float64(F16ToF32(p.d))
		sum, cross, square := 0.0, 0.0, 0.0
		for i := range subs {
			cost := math.Inf(1)
			near := int(clampRound((inverse(d)*steps[i]-1)/2, 0, movedTop))
			var c, s, unit float64
			for scale := max(near-1, 0); scale <= min(near+1, movedTop); scale++ {
				u := float64(1 + 2*scale)
				if l, c1, s1 := f.nearest(i, d*u, nil); l < cost {
					cost, c, s, unit, p.scales[i] = l, c1, s1, u, uint8(scale)
				}
			}
			f.nearest(i, d*unit, p.index[:])
			sum, cross, square = sum+cost, cross+float64(unit*c), square+float64(float64(unit*unit)*s)
		}
		if sum < least {
			best, least = p, sum
		}
		return cross / square
	}
	d := largest / (1 + 2*movedTop)
	next := try(d)
	try(0.92 * d)
	try(1.08 * d)
	if next > 0 {
		try(next)
	}
	return best
}

func packIQ1_S(b []byte, p *movedBlock) {
	order.PutUint16(b, p.d)
	for i := range 8 {
		high := uint16(p.scales[i])<<12 | p.index[4*i]&movedBit<<4
		for l := range 4 {
			b[2+4*i+l] = byte(p.index[4*i+l])
			high |= p.index[4*i+l] >> 8 & 7 << (3 * l)
		}
		order.PutUint16(b[34+2*i:], high)
	}
}

func packIQ1_M(b []byte, p *movedBlock) {
	for i, at := range p.index {
		b[i] = byte(at)
		b[32+i/2] |= byte(at>>8&7|at&movedBit>>8) << (i % 2 * 4)
	}
	for i := range 4 {
		v := p.d >> (4 * i) & 15 << 12
		for l := range 4 {
			v |= uint16(p.scales[4*i+l]) << (3 * l)
		}
		order.PutUint16(b[48+2*i:], v)
	}
}
