package engine

import (
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
)

// draftPlan is for which requests of a step drafts are worth it, and of how many tokens.
type draftPlan struct {
	requests   []*request // that may get a draft
	left       []int      // tokens that a draft of each may have, at most
	candidates []draft.Candidate
	forced     []*request // whose drafts are given
	gain       float64    // see draft.Plan
	unplanned  int        // steps since one was planned to have drafts
	trying     bool       // drafts are planned though they are not worth it; see tryAgain
	failed     int        // tries in a row since drafts were worth it in a step without prompts
	reading    bool       // the step computes parts of prompts
	lookedUp   bool       // drafts take nothing to propose
	silent     int        // steps for which nothing came of asking drafters, since something did
	offerless  int        // and for which those that are asked freely offered nothing
}

// find lists the requests for which the scheduled step may verify a draft. ahead lists those too whose last token is in flight, as if it was
// known; else requests forget the drafts that they had.
func (s *speculation) find(ahead bool) {
	p := &s.plan
	p.requests, p.left, p.forced, p.gain, p.reading = p.requests[:0], p.left[:0], p.forced[:0], 0, false
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
		return tryAfter << min(p.failed, lookupDoublings)
	}
	return tryAfter << min(p.failed, tryDoublings)
}

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
		p.unplanned, p.failed = 0, p.failed+1
	case drafts && p.reading:
		p.unplanned = 0
	case drafts:
		p.unplanned, p.failed = 0, 0
	}
}

// planDrafts says how many tokens to draft for each request's candidate, in a step that brings so many tokens without. It reports whether there are any.
// ahead says that tokens of theirs are in flight.
func (s *speculation) planDrafts(ahead bool) bool {
	p, outputs, room := &s.plan, s.queue.outputs(), s.room()
	s.prices.step()
	p.trying = false
	some := s.mix(ahead, outputs, room, s.priceOf)
	switch {
	case !some:
	case s.always:
		for i := range p.candidates {
			c := &p.candidates[i]
			c.Tokens = min(c.Max, room/len(p.candidates))
		}
	default:
		if p.gain = draft.Plan(p.candidates, outputs, room, worth, s.priceOf); !p.any() && p.unplanned >= p.tryEvery() {
			s.takeInTurn()
			p.tryAgain(outputs, room)
		}
	}
	return p.any()
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
