package sample

import (
	"math"
	"slices"
)

// zipfTokens is how many of the likeliest tokens Mirostat 1 estimates the row's distribution from, as in llama.cpp.
const zipfTokens = 100

// mirostat keeps the tokens whose surprise is within the state's bound, draws one of them, and has the bound move by
// how much that one's surprise is beside MirostatTau. Surprise is -log₂ of the probability.
func (c *chain) mirostat(u float64) int32 {
	p, bits := &c.state.params, c.state.most
	if p.Mirostat == 1 {
		c.zipf(bits)
	} else {
		best, least := c.top(), math.Exp2(-bits)*c.weigh()
		c.left = slices.DeleteFunc(c.left, func(x candidate) bool { return x.weight < least && x.id != best.id })
	}
	mass := c.weigh()
	c.left = nucleus(c.left, u*mass)
	chosen := c.left[len(c.left)-1]
	surprise := -math.Log2(chosen.weight / mass)
	c.state.next = bound{after: chosen.id, most: bits - p.MirostatEta*(surprise-p.MirostatTau)}
	return chosen.id
}

// zipf keeps so many of the likeliest tokens as have that surprise together if probabilities fall as Zipf's law has
// it, with an exponent by least squares over the likeliest.
func (c *chain) zipf(bits float64) {
	if len(c.left) < 2 {
		return
	}
	for i := range c.left {
		c.left[i].weight = 1
	}
	few := nucleus(c.left, zipfTokens) // the beginning of c.left, in no order
	slices.SortFunc(few, func(a, b candidate) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	var products, squares float64
	for i := range few[1:] {
		t := math.Log(float64(i+2) / float64(i+1))
		products += t * float64(few[i].logit-few[i+1].logit) / c.temperature
		squares += t * t
	}
	exponent := products / squares
	e, words := exponent-1, float64(len(c.row))
	over := e / (1 - math.Pow(words, -e))
	if math.Abs(e) < 1e-9 {
		over = 1 / math.Log(words) // the limit
	}
	if k := math.Pow(over*math.Exp2(bits), 1/exponent); k < float64(len(c.left)) {
		c.likeliest(max(1, int(k)))
	}
}
