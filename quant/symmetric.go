package quant

import "math"

// symmetricGrid describes Q3_K and Q6_K: x = d·scale·q, in sub-blocks of 16.
type symmetricGrid struct {
	top      float64 // codes are −top … top−1
	scaleTop float64 // scales are −scaleTop … scaleTop−1
}

// symmetricBlock is a super-block as symmetricGrid encodes it, before packing.
type symmetricBlock struct {
	d      uint16 // f16
	scales [16]int8
	codes  [superBlock]int8
}

// symmetricFit is a super-block before its scales and codes are rounded.
type symmetricFit struct {
	x, w  [superBlock]float64 // the numbers, and what an error in each counts
	scale [16]float64         // of the sub-blocks
}

// encode does as affineGrid.encode, without minima. The scale of largest magnitude goes to −scaleTop, the end
// that reaches further.
func (g symmetricGrid) encode(src *[superBlock]float32, importance []float32) symmetricBlock {
	var fit symmetricFit
	for i, v := range src {
		fit.x[i] = float64(v)
	}
	largest := 0.0
	for i := range fit.scale {
		x, w := fit.x[16*i:][:16], fit.w[16*i:][:16]
		errorWeights(w, x, part(importance, 16*i, 16))
		fit.scale[i] = fitScale(x, w, g.top)
		if math.Abs(fit.scale[i]) > math.Abs(largest) {
			largest = fit.scale[i]
		}
	}
	plain := symmetricBlock{d: f16Scale(-largest / g.scaleTop)}
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

// improve goes on from a block by turns of refit and of a search for each sub-block's scale, of all there are, as long as the error falls.
func (g symmetricGrid) improve(b symmetricBlock, fit *symmetricFit, loss float64) symmetricBlock {
	for range improveRounds {
		now := b
		g.refit(&now, fit)
		d, sum := float64(F16ToF32(now.d)), 0.0
		for i := range fit.scale {
			x, w := fit.x[16*i:][:16], fit.w[16*i:][:16]
			s0 := float64(now.scales[i])
			best := g.loss(x, w, d*s0)
			for s := max(-g.scaleTop, s0-32); s <= min(g.scaleTop-1, s0+32); s++ {
				if l := g.loss(x, w, d*s); l < best {
					best, now.scales[i] = l, int8(s)
				}
			}
			sum += best
			inv := inverse(d * float64(now.scales[i]))
			for j, v := range x {
				now.codes[16*i+j] = int8(clampRound(v*inv, -g.top, g.top-1))
			}
		}
		if sum >= loss {
			break
		}
		b, loss = now, sum
	}
	return b
}

// quantise fills in scales and codes for b's factor and returns the weighted squared error. With search it also tries
// each scale one down and one up.
func (g symmetricGrid) quantise(b *symmetricBlock, fit *symmetricFit, search bool) (loss float64) {
	d := float64(F16ToF32(b.d))
	for i := range fit.scale {
		x, w := fit.x[16*i:][:16], fit.w[16*i:][:16]
		s := clampRound(fit.scale[i]*inverse(d), -g.scaleTop, g.scaleTop-1)
		best := g.loss(x, w, d*s)
		if search {
			for _, s1 := range [2]float64{max(s-1, -g.scaleTop), min(s+1, g.scaleTop-1)} {
				if l := g.loss(x, w, d*s1); l < best {
					best, s = l, s1
				}
			}
		}
		loss += best
		b.scales[i] = int8(s)
		inv := inverse(d * s)
		for j, v := range x {
			b.codes[16*i+j] = int8(clampRound(v*inv, -g.top, g.top-1))
		}
	}
	return loss
}

// loss is the weighted squared error of a sub-block with a given step.
func (g symmetricGrid) loss(x, w []float64, step float64) (loss float64) {
	inv := inverse(step)
	for i, v := range x {
		e := float64(step*clampRound(v*inv, -g.top, g.top-1)) - v
		loss += float64(w[i] * float64(e*e))
	}
	return loss
}

// refit chooses d anew to serve b's scales and codes: least squares of x ≈ d·a with a = scale·q.
func (g symmetricGrid) refit(b *symmetricBlock, fit *symmetricFit) {
	var aa, ax float64
	for i, v := range fit.x {
		a := float64(b.scales[i/16]) * float64(b.codes[i])
		aa += float64(fit.w[i] * float64(a*a))
		ax += float64(fit.w[i] * float64(a*v))
	}
	if aa > 0 {
		b.d = f16Scale(ax / aa)
	}
}
