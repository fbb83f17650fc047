package engine

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/draft"
)

// option is a way to draft in a step: what each request's draft is by one drafter or, of those that are asked freely, by the one that has offered most.
type option struct {
	candidates []draft.Candidate
	expected   []float64 // tokens to be accepted of each request's
}

// mix decides whose draft each request's is: of one drafter for all, of those that compute one and of those that offered one, or of each request what most tokens are expected
// of, whichever brings most tokens a second. ahead says that what is offered is not known, since a token is in flight, but expected. It reports whether there are any.
func (s *speculation) mix(ahead bool, outputs, room int, usual float64, price func(draft.Extra) float64) bool {
	p := &s.plan
	all := s.options(ahead)
	if len(all) == 0 {
		p.candidates = slices.Grow(p.candidates[:0], len(p.requests))[:len(p.requests)]
		clear(p.candidates)
		return false
	}
	whole := uint(1)<<len(all) - 1
	chosen, gain := whole, 0.0
	if len(all) > 1 && !s.always {
		for _, set := range s.sets(len(all)) {
			s.pick(all, set)
			if g := draft.Plan(p.candidates, outputs, room, usual, worth, price); g > gain {
				chosen, gain = set, g
			}
		}
	}
	s.pick(all, chosen)
	return true
}

// options are the ways that there are: each drafter that has to be paid for, and last what is offered, if anything is.
func (s *speculation) options(ahead bool) []option {
	p, n := &s.plan, 0
	next := func() *option {
		if n == len(s.ways) {
			s.ways = append(s.ways, option{})
		}
		o := &s.ways[n]
		o.candidates, o.expected = o.candidates[:0], o.expected[:0]
		n++
		return o
	}
	add := func(o *option, c draft.Candidate) {
		o.candidates, o.expected = append(o.candidates, c), append(o.expected, c.Expected())
	}
	for k, d := range s.drafters {
		if d.Drafter == nil || d.offers {
			continue
		}
		o := next()
		behind, late := d.Drafter.(draft.Behind)
		for i, r := range p.requests {
			known := r.known()
			c := draft.Candidate{Acceptance: &r.estimates[k], Max: min(d.most, p.left[i]), Context: known, Drafter: d.paid}
			if late {
				c.Behind = behind.Behind(r.sched.ID, known) / float64(min(max(r.sched.Limit-known, 1), shared))
			}
			add(o, c)
		}
	}
	if s.paid = n; ahead {
		s.expectOffers()
	}
	if !s.offered() {
		return s.ways[:n]
	}
	o := next()
	for i, r := range p.requests {
		c := draft.Candidate{Free: true, Context: r.known()}
		if by := r.offer.by; by != nobody {
			c.Acceptance, c.Max = &r.estimates[by], min(s.drafters[by].most, p.left[i])
			if !ahead {
				c.Max = min(c.Max, len(r.offer.draft.Tokens))
			}
		}
		add(o, c)
	}
	return s.ways[:n]
}

// sets are the sets of n options that are compared, a bit for each option.
func (s *speculation) sets(n int) []uint {
	sets := append(s.compared[:0], 1<<n-1)
	for i := n - 1; i >= 0; i-- {
		if sets = append(sets, 1<<i); s.paid > 1 && i < s.paid && n > s.paid {
			sets = append(sets, 1<<i|1<<s.paid)
		}
	}
	s.compared = sets
	return sets
}

// pick makes each request's candidate that of a set of options of which most tokens are expected; what is offered counts first.
func (s *speculation) pick(all []option, set uint) {
	p := &s.plan
	p.candidates = p.candidates[:0]
	for i := range p.requests {
		best := -1
		for k := len(all) - 1; k >= 0; k-- {
			if set>>k&1 != 0 && (best < 0 || all[k].expected[i] > all[best].expected[i]) {
				best = k
			}
		}
		p.candidates = append(p.candidates, all[best].candidates[i])
	}
}

// takeInTurn makes the candidates those of one drafter, another at each try: of those that have to be paid for or, where there are none, what is offered.
func (s *speculation) takeInTurn() {
	if n := s.paid; n > 0 {
		s.pick(s.ways[:n], 1<<(*s.plan.failures()%n))
	}
}

// settleEstimates has the estimates that let nothing be drafted in so many steps forget a little, and counts who has offered in vain.
func (s *speculation) settleEstimates(steps int) {
	p := &s.plan
	for k, d := range s.drafters {
		used := false
		for i, r := range p.requests {
			c := &p.candidates[i]
			if c.Tokens > 0 && c.Acceptance == &r.estimates[k] {
				used = true
			} else if !d.offers || r.offer.by == k {
				r.estimates[k].Wait(steps)
			}
		}
		switch {
		case used:
			d.declined = 0
		case d.offered || !d.offers:
			d.declined++
			d.acceptance.Wait(steps)
		}
	}
}
