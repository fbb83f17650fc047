package engine

import (
	"math/bits"
	"slices"

	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
)

// draftPlan is for which requests of a step drafts are worth it, and of how many tokens.
type draftPlan struct {
	requests   []*request // that may get a draft
	left       []int      // tokens that a draft of each may have, at most
	candidates []draft.Candidate
	forced     []*request             // whose drafts are given
	gain       float64                // see draft.Plan
	usually    float64                // gain of the last plan of a step without prompts
	drafting   float64                // what the drafters are priced at, s
	unplanned  int                    // steps since one was planned to have drafts
	trying     bool                   // drafts are planned though they are not worth it; see tryAgain
	failed     [bits.UintSize + 1]int // tries in a row since drafts were worth it in a step without prompts, by the number of bits of the tokens that steps bring without
	outputs    int                    // that the step at hand brings without drafts
	reading    bool                   // the step computes parts of prompts
	lookedUp   bool                   // drafts take nothing to propose
	silent     int                    // steps for which nothing came of asking drafters, since something did
	offerless  int                    // and for which those that are asked freely offered nothing
	rest       rest
}

// rest is how long nothing has been worth drafting. Then most steps are not planned: what a plan goes by changes slowly as long as nothing is drafted, and on a small model
// planning is a hundredth of a step.
type rest struct {
	inVain  [2]int // plans in a row by which no draft was worth it, in steps of answers alone and beside prompts
	steps   int    // not planned, since one was
	outputs int    // of the last that was
}

// planEvery is every how many steps are planned then.
const planEvery = 8

// kind is which of inVain a step counts for.
func (p *draftPlan) kind() int {
	if p.reading {
		return 1
	}
	return 0
}

// rests reports whether the step, which brings so many tokens without drafts, need not be planned: several plans were in vain, the last not long ago, nothing has been offered
// since, and the step brings about as many tokens.
func (p *draftPlan) rests(outputs int, offered bool) bool {
	x := &p.rest
	if offered || x.inVain[p.kind()] < engaged || x.steps+1 >= planEvery || p.unplanned >= p.tryEvery() || bits.Len(uint(outputs)) != bits.Len(uint(x.outputs)) {
		return false
	}
	x.steps++
	return true
}

// planned notes what came of a plan for a step that brings so many tokens without drafts.
func (p *draftPlan) planned(outputs int, drafts bool) {
	x := &p.rest
	x.steps, x.outputs = 0, outputs
	if n := &x.inVain[p.kind()]; drafts && !p.trying {
		*n = 0
	} else {
		*n = min(*n+1, engaged)
	}
}

// find lists the requests for which the scheduled step may verify a draft. ahead lists those too whose last token is in flight, as if it was
// known; else requests forget the drafts that they had.
func (s *speculation) find(ahead bool) {
	p := &s.plan
	p.requests, p.left, p.forced, p.gain, p.reading = p.requests[:0], p.left[:0], p.forced[:0], 0, false
	p.drafting = 0
	for _, c := range s.queue.schedule.Chunks {
		r := s.queue.byID[c.Request.ID]
		p.reading = p.reading || c.Tokens > behind
		if !ahead {
			r.draft = draft.Draft{}
		}
		if c.Admit || !c.Logits || c.Tokens > behind || !ahead && r.pending > 0 || r.output+r.pending == 0 || len(r.siblings) > 0 || r.Embeddings != nil || r.Hidden != nil {
			continue
		}
		n := r.sched.Limit - r.known() - 1
		if n < 1 {
			continue
		}
		s.estimate(r)
		if r.ForcedDrafts != nil {
			p.forced = append(p.forced, r)
			continue
		}
		p.requests, p.left = append(p.requests, r), append(p.left, n)
	}
}

// any reports whether a candidate is to have a draft.
func (p *draftPlan) any() bool {
	for i := range p.candidates {
		if p.candidates[i].Tokens > 0 {
			return true
		}
	}
	return false
}

// Where drafts have not been worth it for tryAfter steps, one step tries a few: what they take, and what becomes of them, may have changed. A step with a draft may take
// several times as long as one without, so each try in vain doubles the steps to the next: drafts that are looked up, of which more changes from request to
// request and a try takes less, a few times, and others tryDoublings times. Of drafts that are verified whole one is tried.
const tryAfter, tryTokens, tryDoublings, lookupDoublings = 64, 3, 4, 2

// tryEvery is after how many steps without drafts one tries them.
func (p *draftPlan) tryEvery() int {
	if p.lookedUp {
		return tryAfter << min(*p.failures(), lookupDoublings)
	}
	return tryAfter << min(*p.failures(), tryDoublings)
}

// failures is how many tries have failed in a row in steps of about as many requests: what is worth it for a few says nothing of many.
func (p *draftPlan) failures() *int { return &p.failed[bits.Len(uint(p.outputs))] }

// tryAgain has some tokens drafted after many steps without, a quarter of those that the step brings or tryTokens.
func (p *draftPlan) tryAgain(outputs, room int) {
	p.trying = true
	left := min(max(outputs/4, tryTokens), room)
	for i := range p.candidates {
		c := &p.candidates[i]
		if c.Acceptance != nil && c.Acceptance.Whole > 0 { // one at a time
			c.Tokens = min(c.Max, room)
			break
		}
		c.Tokens = min(c.Max, tryTokens, left)
		left -= c.Tokens
	}
}

// launched notes whether the step had drafts for the candidates. That they were worth it beside prompts, where rows cost little, says nothing of other steps: there tries stay
// as rare as they have become.
func (p *draftPlan) launched(drafts bool) {
	switch p.unplanned++; {
	case drafts && p.trying:
		p.unplanned = 0
		*p.failures()++
	case drafts && p.reading:
		p.unplanned = 0
	case drafts:
		p.unplanned, *p.failures() = 0, 0
	}
}

// planDrafts says how many tokens to draft for each request's candidate, in a step that brings so many tokens without. It reports whether there are any.
// ahead says that tokens of theirs are in flight.
func (s *speculation) planDrafts(ahead bool) bool {
	p, outputs := &s.plan, s.queue.outputs()
	p.trying, p.outputs = false, outputs
	if !s.always && p.rests(outputs, !ahead && s.offered()) {
		p.candidates = slices.Grow(p.candidates[:0], len(p.requests))[:len(p.requests)]
		clear(p.candidates)
		return false
	}
	room := s.room()
	s.prices.step()
	usual := s.usual()
	some := s.mix(ahead, outputs, room, usual, s.priceOf)
	switch {
	case !some:
	case s.always:
		for i := range p.candidates {
			c := &p.candidates[i]
			c.Tokens = min(c.Max, room/len(p.candidates))
		}
	default:
		p.gain = draft.Plan(p.candidates, outputs, room, usual, worth, s.priceOf)
		if !p.reading {
			p.usually = max(p.gain, 1)
		}
		if !p.any() && p.unplanned >= p.tryEvery() {
			s.takeInTurn()
			p.tryAgain(outputs, room)
		}
	}
	p.planned(outputs, p.any())
	return p.any()
}

// usual is how many tokens a second come in steps without prompts, where the scheduled one computes parts of some; else 0. Beside a prompt drafts raise the rate of the step, which is low, though
// each token may take longer than in the next.
func (s *speculation) usual() float64 {
	if !s.plan.reading {
		return 0
	}
	rest := s.queue.schedule.Shape
	for _, c := range s.queue.schedule.Chunks {
		if c.Tokens > behind {
			rest = rest.Sub(c.Request.Computed, c.Tokens, c.Logits)
		}
	}
	seconds := s.prices.estimate(rest)
	if rest.Logits <= 0 || seconds <= 0 {
		return 0
	}
	return max(s.plan.usually, 1) * float64(rest.Logits) / seconds
}

// room is how many tokens of drafts the scheduled step has room for.
func (s *speculation) room() int {
	return min(s.limits.stepTokens-s.queue.schedule.Shape.Tokens, s.limits.logits-s.queue.outputs())
}

// grown is the shape of a step with drafts.
func grown(x sched.Shape, drafts draft.Extra) sched.Shape {
	return sched.Shape{Tokens: x.Tokens + drafts.Tokens, Logits: x.Logits + drafts.Tokens, Drafts: x.Drafts + drafts.Tokens, Rows: x.Rows + drafts.Tokens, Pairs: x.Pairs + drafts.Pairs}
}

// shared is over how many tokens of an answer what its drafter needs before is divided, at most: how long drafts stay worth it is not known.
const shared = 64
