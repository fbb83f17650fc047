package sample

import (
	"math"
	"slices"
)

// chain is the samplers as llama.cpp has them, on the tokens that are left of a row. It is for requests with one of
// llama.cpp's own samplers: the others are those of draw, in llama.cpp's order. Each step takes time linear in the
// tokens that are left; nothing is sorted.
type chain struct {
	row         []float32 // [vocab], as it was adjusted
	state       *State
	chance      float64     // a random number beside the draw's, for xtc
	left        []candidate // with the row's logits; never empty
	temperature float64     // that the logits are divided by
}

// chainSteps are the samplers by llama.cpp's names.
var chainSteps = map[string]func(*chain){
	"penalties":   (*chain).penalise,
	"dry":         (*chain).dry,
	"top_n_sigma": func(c *chain) { c.nearTop(c.state.params.TopNSigma) },
	"top_k":       func(c *chain) { c.likeliest(c.state.params.TopK) },
	"typ_p":       func(c *chain) { c.typical(c.state.params.TypicalP) },
	"top_p":       func(c *chain) { c.nucleus(c.state.params.TopP) },
	"min_p":       func(c *chain) { c.minP(c.state.params.MinP) },
	"xtc":         (*chain).xtc,
	"temperature": (*chain).temper,
}

// llamaOrder is the order of samplers where a request does not say one.
var llamaOrder = []string{"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"}

// SamplerNames are the names that Params.Samplers may have, in llama.cpp's order.
func SamplerNames() []string { return slices.Clone(llamaOrder) }

// chained draws a token by llama.cpp's samplers. u decides between the tokens that are left, and chance whether the
// likeliest are left out; both are in [0, 1).
func (s *Sampler) chained(logits []float32, st *State, u, chance float64) int32 {
	c := chain{row: logits, state: st, chance: chance, left: gather(s.candidates[:0], logits, float32(math.Inf(-1)), 0), temperature: 1}
	s.candidates = c.left[:0]
	p := &st.params
	if p.Mirostat > 0 {
		c.temper()
		return c.mirostat(u)
	}
	order := p.Samplers
	if len(order) == 0 {
		order = llamaOrder
	}
	for _, name := range order {
		chainSteps[name](&c)
	}
	return c.draw(u)
}

// penalise changes the logits of what is left.
func (c *chain) penalise() {
	if c.state.params.penalised() {
		c.state.penalise(c.row, c.temperature)
		c.reread()
	}
}

// reread takes the logits of what is left from the row again.
func (c *chain) reread() {
	for i := range c.left {
		c.left[i].logit = c.row[c.left[i].id]
	}
}

// weigh sets the weights, 1 for the likeliest token, and returns their sum.
func (c *chain) weigh() float64 {
	scale := newScaling(c.top().logit, c.temperature)
	for i := range c.left {
		c.left[i].weight = weight(min(scale.y(c.left[i].logit), steps))
	}
	return sum(c.left)
}

// top is the likeliest token.
func (c *chain) top() candidate {
	best := c.left[0]
	for _, x := range c.left[1:] {
		if x.before(best) {
			best = x
		}
	}
	return best
}

// nearTop is top-nσ (arXiv:2411.07641): it keeps the tokens whose logit is at most n standard deviations of the
// logits below the highest. Temperature changes nothing about which they are.
func (c *chain) nearTop(n float64) {
	if n <= 0 {
		return
	}
	var mean, variance float64
	for _, x := range c.left {
		mean += float64(x.logit) / float64(len(c.left))
	}
	for _, x := range c.left {
		d := float64(x.logit) - mean
		variance += d * d / float64(len(c.left))
	}
	floor := float64(c.top().logit) - n*math.Sqrt(variance)
	c.left = slices.DeleteFunc(c.left, func(x candidate) bool { return float64(x.logit) < floor })
}

func (c *chain) likeliest(k int) {
	if k <= 0 || k >= len(c.left) {
		return
	}
	for i := range c.left {
		c.left[i].weight = 1
	}
	c.left = nucleus(c.left, float64(k))
}

func (c *chain) typical(p float64) {
	if p >= 1 {
		return
	}
	c.left = typical(c.left, c.weigh(), p)
	c.reread() // typical leaves something else in place of logits
}

func (c *chain) nucleus(p float64) {
	if p < 1 {
		c.left = nucleus(c.left, p*c.weigh())
	}
}

func (c *chain) minP(p float64) {
	if p <= 0 {
		return
	}
	floor := float64(c.top().logit) + c.temperature*math.Log(p)
	c.left = slices.DeleteFunc(c.left, func(x candidate) bool { return float64(x.logit) < floor })
}

// xtc leaves out the likeliest tokens, as often as it should.
func (c *chain) xtc() {
	if p := &c.state.params; c.chance < p.XTCProbability {
		c.withoutTop(p.XTCThreshold)
	}
}

// withoutTop is XTC (exclude top choices): of the tokens whose probability is threshold or more only the least likely
// stays.
func (c *chain) withoutTop(threshold float64) {
	least := threshold * c.weigh()
	last, n := candidate{}, 0
	for _, x := range c.left {
		if x.weight >= least {
			if n == 0 || last.before(x) {
				last = x
			}
			n++
		}
	}
	if n > 1 {
		c.left = slices.DeleteFunc(c.left, func(x candidate) bool { return x.before(last) })
	}
}

// temper divides the logits by the temperature. With DynatempRange it lies between Temperature ± that, the nearer to
// the lower end the surer the model is: by the entropy of what is left over the most that it could be, to the power
// DynatempExponent.
func (c *chain) temper() {
	p := &c.state.params
	t := p.Temperature
	if p.DynatempRange > 0 {
		if len(c.left) == 1 {
			return
		}
		mass := c.weigh()
		var entropy float64
		for i := range c.left {
			q := c.left[i].weight / mass
			entropy -= q * math.Log(q)
		}
		low, high := max(0, t-p.DynatempRange), t+p.DynatempRange
		t = low + (high-low)*math.Pow(entropy/math.Log(float64(len(c.left))), p.DynatempExponent)
	}
	if t < greedyBelow {
		c.left[0] = c.top()
		c.left = c.left[:1]
		return
	}
	c.temperature *= t
}

// draw chooses as Sampler.draw does.
func (c *chain) draw(u float64) int32 {
	c.left = nucleus(c.left, u*c.weigh())
	return c.left[len(c.left)-1].id
}
