package quant

// superBlock is how many numbers a block of the K formats holds. Its sub-blocks have small whole scales (and minima), and
// one f16 factor stands over them all.
const superBlock = 256

// affineGrid describes Q2_K, Q4_K and Q5_K: x = d·scale·q − dmin·minimum.
type affineGrid struct {
	sub      int     // numbers in a sub-block
	top      float64 // codes are 0 … top
	scaleTop float64 // scales and minima are 0 … scaleTop
}

// affineBlock is a super-block as affineGrid encodes it, before packing.
type affineBlock struct {
	d, dmin      uint16   // f16
	scales, mins [16]byte // of the sub-blocks, 8 or 16
	codes        [superBlock]byte
}

// affineFit is a super-block before its scales and codes are rounded.
type affineFit struct {
	x, w         [superBlock]float64 // the numbers, and what an error in each counts
	scale, floor [16]float64         // of the sub-blocks
}

// encode fits each sub-block alone, chooses the factors that the largest scale and minimum need, and makes the others
// whole. Then it chooses the factors again, to serve the codes found, and keeps the better of the two.
func (g affineGrid) encode(src *[superBlock]float32, importance []float32) affineBlock {
	var fit affineFit
	for i, v := range src {
		fit.x[i] = float64(v)
	}
	var maxScale, maxFloor float64
	for i := range superBlock / g.sub {
		x, w := fit.x[i*g.sub:][:g.sub], fit.w[i*g.sub:][:g.sub]
		errorWeights(w, x, part(importance, i*g.sub, g.sub))
		fit.scale[i], fit.floor[i] = fitAffine(x, w, g.top)
		maxScale, maxFloor = max(maxScale, fit.scale[i]), max(maxFloor, fit.floor[i])
	}
	plain := affineBlock{d: f16Scale(maxScale / g.scaleTop), dmin: f16Scale(maxFloor / g.scaleTop)}
	plainLoss := g.quantise(&plain, &fit, false)
	again := plain
	g.refit(&again, &fit)
	loss := g.quantise(&again, &fit, true)
	if loss >= plainLoss {
		again, loss = plain, plainLoss
	}
	if importance != nil {
		return g.improve(again, &fit, loss)
	}
	return again
}

// improveRounds is how often factors are chosen anew for the scales found, and scales for the factors, where importances are known.
const improveRounds = 6

// improve goes on from a block by turns of refit and of a search for each sub-block's scale and minimum, as long as the error falls: of all there
// are where they have four bits, else of those nearby.
func (g affineGrid) improve(b affineBlock, fit *affineFit, loss float64) affineBlock {
	for range improveRounds {
		now := b
		g.refit(&now, fit)
		d, dmin := float64(F16ToF32(now.d)), float64(F16ToF32(now.dmin))
		sum := 0.0
		for i := range superBlock / g.sub {
			x, w := fit.x[i*g.sub:][:g.sub], fit.w[i*g.sub:][:g.sub]
			sum += g.searchAround(&now, i, x, w, d, dmin)
			floor, inv := dmin*float64(now.mins[i]), inverse(d*float64(now.scales[i]))
			for j, v := range x {
				now.codes[i*g.sub+j] = byte(clampRound(float64((v+floor)*inv), 0, g.top))
			}
		}
		if sum >= loss {
			break
		}
		b, loss = now, sum
	}
	return b
}

// searchAround sets the scale and minimum of sub-block i to the best, and returns its error.
func (g affineGrid) searchAround(b *affineBlock, i int, x, w []float64, d, dmin float64) float64 {
	reach := g.scaleTop
	if reach > 15 {
		reach = 3
	}
	s0, m0 := float64(b.scales[i]), float64(b.mins[i])
	best := g.loss(x, w, d*s0, dmin*m0)
	for s := max(0, s0-reach); s <= min(g.scaleTop, s0+reach); s++ {
		for m := max(0, m0-reach); m <= min(g.scaleTop, m0+reach); m++ {
			if l := g.loss(x, w, d*s, dmin*m); l < best {
				best, b.scales[i], b.mins[i] = l, byte(s), byte(m)
			}
		}
	}
	return best
}

// quantise fills in scales, minima and codes for b's factors and returns the weighted squared error. With search it also
// tries each scale and minimum one down and one up.
func (g affineGrid) quantise(b *affineBlock, fit *affineFit, search bool) (loss float64) {
	d, dmin := float64(F16ToF32(b.d)), float64(F16ToF32(b.dmin))
	for i := range superBlock / g.sub {
		x, w := fit.x[i*g.sub:][:g.sub], fit.w[i*g.sub:][:g.sub]
		s := clampRound(fit.scale[i]*inverse(d), 0, g.scaleTop)
		m := clampRound(fit.floor[i]*inverse(dmin), 0, g.scaleTop)
		best := g.loss(x, w, d*s, dmin*m)
		if search {
			for _, move := range [4][2]float64{{0, -1}, {0, 1}, {-1, 0}, {1, 0}} {
				s1, m1 := s+move[0], m+move[1]
				if s1 < 0 || s1 > g.scaleTop || m1 < 0 || m1 > g.scaleTop {
					continue
				}
				if l := g.loss(x, w, d*s1, dmin*m1); l < best {
					best, s, m = l, s1, m1
				}
			}
		}
		loss += best
		b.scales[i], b.mins[i] = byte(s), byte(m)
		floor, inv := dmin*m, inverse(d*s)
		for j, v := range x {
			b.codes[i*g.sub+j] = byte(clampRound(float64((v+floor)*inv), 0, g.top))
		}
	}
	return loss
}

// loss is the weighted squared error of a sub-block with a given step and floor.
func (g affineGrid) loss(x, w []float64, step, floor float64) (loss float64) {
	inv := inverse(step)
	for i, v := range x {
		q := clampRound(float64((v+floor)*inv), 0, g.top)
		e := float64(step*q) - floor - v
		loss += float64(w[i] * float64(e*e))
	}
	return loss
}

// refit chooses d and dmin anew to serve b's scales, minima and codes: least squares in two unknowns, of
// x ≈ d·a + dmin·m with a = scale·q and m = −minimum.
func (g affineGrid) refit(b *affineBlock, fit *affineFit) {
	var aa, am, mm, ax, mx float64
	for i, v := range fit.x {
		w := fit.w[i]
		a, m := float64(b.scales[i/g.sub])*float64(b.codes[i]), -float64(b.mins[i/g.sub])
		aa += float64(w * float64(a*a))
		am += float64(w * float64(a*m))
		mm += float64(w * float64(m*m))
		ax += float64(w * float64(a*v))
		mx += float64(w * float64(m*v))
	}
	det := float64(aa*mm) - float64(am*am)
	d, dmin := float64(ax*mm)-float64(mx*am), float64(mx*aa)-float64(ax*am)
	switch {
	case det > tiny*aa*mm && d > 0 && dmin > 0:
		b.d, b.dmin = f16Scale(d/det), f16Scale(dmin/det)
	case mm == 0 && ax > 0: // no minima
		b.d = f16Scale(ax / aa)
	}
}
