package sample

import (
	"errors"
	"math"
)

// Sampler is the scratch memory of sampling: about 20 bytes per token of the vocabulary at worst, kept between calls.
// The zero Sampler is ready. It may be used by one goroutine at a time, for any number of requests.
type Sampler struct {
	histogram  histogram
	candidates []candidate
	raw        []float32
	top        []Logprob
}

// Choice is the token that Sample chose.
type Choice struct {
	Token   int32
	Logprob float32   // ln of its probability in the untouched row; 0 unless Params.Logprobs is set
	Top     []Logprob // Params.TopLogprobs likeliest tokens, likeliest first; valid until the next Sample
}

var errNothingLeft = errors.New("sample: no token is left to choose: every logit is −Inf or NaN, or the masks and banned tokens exclude all")

// Sample chooses the next token of the request that st belongs to. logits is its row, [vocab], and is overwritten.
// mask, if not nil, holds a bit per token, set for those allowed: bit i%32 of mask[i/32] is token i. NaN logits count
// as −Inf. Sample leaves the text and the settings of st as they are: call Observe with the tokens that join the answer.
func (s *Sampler) Sample(logits []float32, st *State, mask []uint32) (Choice, error) {
	p := &st.params
	raw := logits
	if p.Logprobs && st.changesLogits(mask) {
		s.raw = append(s.raw[:0], logits...)
		raw = s.raw
	}
	st.adjust(logits, mask)
	if p.Chained() == "" {
		st.penalise(logits, 1)
	}
	best, top := argmax(logits)
	if best < 0 {
		return Choice{}, errNothingLeft
	}
	if math.IsInf(float64(top), 1) {
		return Choice{}, infinite(int32(best))
	}
	choice := Choice{Token: int32(best)}
	switch u := uniform(p.Seed, st.outputs+st.again); {
	case p.Chained() != "":
		choice.Token = s.chained(logits, st, u, uniform(^p.Seed, st.outputs+st.again))
	case !p.greedy():
		choice.Token = s.draw(logits, top, p, u)
	}
	if p.Logprobs {
		s.report(&choice, raw, p.TopLogprobs)
	}
	return choice, nil
}

// Score is the log-probability of a token in a row of logits, [vocab], and those of the n likeliest, as Sample reports them. The row stays as it is.
func (s *Sampler) Score(logits []float32, token int32, n int) (Choice, error) {
	best, top := argmax(logits)
	if best < 0 {
		return Choice{}, errNothingLeft
	}
	if math.IsInf(float64(top), 1) {
		return Choice{}, infinite(int32(best))
	}
	choice := Choice{Token: token}
	if s.report(&choice, logits, n); choice.Logprob != choice.Logprob { // NaN logits count as −Inf
		choice.Logprob = float32(math.Inf(-1))
	}
	return choice, nil
}

// draw filters the row and chooses by u in [0, 1): the token at which the tokens' weights, summed from the likeliest
// down, reach the part u of all that are left. So a small change of the logits seldom changes the choice.
func (s *Sampler) draw(logits []float32, top float32, p *Params, u float64) int32 {
	scale := newScaling(top, p.Temperature)
	c, mass := s.collect(logits, scale, p, u)
	if p.TopP < 1 {
		c = nucleus(c, p.TopP*mass)
		mass = sum(c)
	}
	if p.TypicalP < 1 {
		c = typical(c, mass, p.TypicalP)
		mass = sum(c)
	}
	c = nucleus(c, u*mass)
	return c[len(c)-1].id
}

// collect lists the weighted candidates that min-p and top-k leave, and their mass. If neither is set the mass is the
// whole row's, and the list goes only as far down as the later steps can look.
func (s *Sampler) collect(logits []float32, scale scaling, p *Params, u float64) (c []candidate, mass float64) {
	some := p.TopK > 0 && p.TopK < len(logits)
	switch {
	case some || p.MinP > 0:
		keep := 0
		if some {
			keep = p.TopK
		}
		c = s.weigh(logits, scale, min(steps, -math.Log(p.MinP)*perUnit), keep) // -ln 0 is +Inf
		return c, sum(c)
	case p.TopP < 1:
		return s.likeliest(logits, scale, p.TopP)
	case p.TypicalP < 1:
		return s.likeliest(logits, scale, 1)
	}
	return s.likeliest(logits, scale, u)
}

// likeliest lists the likeliest tokens as far down as the given part of the row's mass, and further, and returns the
// whole mass.
func (s *Sampler) likeliest(logits []float32, scale scaling, part float64) (c []candidate, mass float64) {
	s.histogram.count(logits, scale)
	y, rest := s.histogram.cut((1 + part) / 2) // half-way to the end: counted masses are not quite exact
	c = s.weigh(logits, scale, y, 0)
	listed := sum(c)
	if part*(listed+rest) > listed {
		c = s.weigh(logits, scale, steps, 0)
		return c, sum(c)
	}
	return c, listed + rest
}

// weigh lists the tokens down to y with their weights; if keep is positive, the keep likeliest of them.
func (s *Sampler) weigh(logits []float32, scale scaling, y float64, keep int) []candidate {
	c := gather(s.candidates[:0], logits, scale.below(y), keep)
	s.candidates = c[:0]
	for i := range c {
		c[i].weight = weight(min(scale.y(c[i].logit), steps))
	}
	return c
}

func sum(c []candidate) (mass float64) {
	for i := range c {
		mass += c[i].weight
	}
	return mass
}

// typical keeps the candidates whose information -ln p is nearest to the entropy of them all, until they reach the
// part p of the mass. It leaves how near each is in place of the logit.
func typical(c []candidate, mass, p float64) []candidate {
	var entropy float64
	for i := range c {
		q := c[i].weight / mass
		entropy -= q * math.Log(q)
	}
	for i := range c {
		c[i].logit = -float32(math.Abs(math.Log(c[i].weight/mass) + entropy))
	}
	return nucleus(c, p*mass)
}

// report fills in the log-probabilities, from the row as the model gave it.
func (s *Sampler) report(choice *Choice, raw []float32, n int) {
	_, top := argmax(raw)
	_, mass := s.likeliest(raw, newScaling(top, 1), 0)
	total := float64(top) + math.Log(mass)
	choice.Logprob = float32(float64(raw[choice.Token]) - total)
	if n == 0 {
		return
	}
	c := gather(s.candidates[:0], raw, float32(math.Inf(-1)), n)
	s.candidates = c[:0]
	sortFew(c)
	s.top = s.top[:0]
	for _, x := range c {
		s.top = append(s.top, Logprob{Token: x.id, Logprob: float32(float64(x.logit) - total)})
	}
	choice.Top = s.top
}
