package engine

import (
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
)

// draftPlan is for which requests of a step drafts are worth it, and of how many tokens.
type draftPlan struct {
	acceptance draft.Acceptance // of all requests
	requests   []*request       // that may get a draft
	candidates []draft.Candidate
	forced     []*request // whose drafts are given
	gain       float64    // see draft.Plan
	unplanned  int        // steps since one was planned to have drafts
	trying     bool       // drafts are planned though they are not worth it; see tryAgain
	failed     int        // tries in a row since drafts were worth it
	lookedUp   bool       // drafts take nothing to propose
	silent     int        // steps for which nothing came of asking the drafter, since something did
}

// find lists the requests for which the scheduled step may verify a draft of up to so many tokens. ahead lists those too whose last token is in flight, as if it was
// known; else requests forget the drafts that they had.
func (p *draftPlan) find(q *queue, most int, ahead bool) {
	p.requests, p.candidates, p.forced, p.gain = p.requests[:0], p.candidates[:0], p.forced[:0], 0
	for _, c := range q.schedule.Chunks {
		r := q.byID[c.Request.ID]
		if !ahead {
			r.draft = draft.Draft{}
		}
		if c.Admit || !c.Logits || c.Tokens > behind || !ahead && r.pending > 0 || r.output+r.pending == 0 || len(r.siblings) > 0 || r.Embeddings != nil || r.Hidden != nil {
			continue
		}
		n := min(most, r.sched.Limit-r.known()-1)
		if n < 1 {
			continue
		}
		if r.acceptance == nil {
			r.acceptance = &draft.Acceptance{Of: &p.acceptance, Trees: p.acceptance.Trees, Whole: p.acceptance.Whole}
			r.silent = min(p.silent, engaged)
		}
		if r.ForcedDrafts != nil {
			p.forced = append(p.forced, r)
			continue
		}
		p.requests = append(p.requests, r)
		p.candidates = append(p.candidates, draft.Candidate{Acceptance: r.acceptance, Max: n, Context: r.known()})
	}
}

// drafts says for how many tokens of each candidate's a draft is worth it, in a step that brings so many tokens without and has room for so many of drafts. It reports whether
// there are any. always is Speculation.Always, price that of draft.Plan.
func (p *draftPlan) drafts(always bool, outputs, room int, price func(draft.Extra) float64) bool {
	p.trying = false
	if always {
		for i := range p.candidates {
			c := &p.candidates[i]
			c.Tokens = min(c.Max, room/len(p.candidates))
		}
	} else if p.gain = draft.Plan(p.candidates, outputs, room, worth, price); !p.any() && p.unplanned >= p.tryEvery() {
		p.tryAgain(outputs, room)
	}
	return p.any()
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
		c.Tokens = min(c.Max, tryTokens, left)
		if whole := p.acceptance.Whole; whole > 0 { // one at a time
			c.Tokens = min(c.Max, room)
			break
		}
		left -= c.Tokens
	}
}

// launched notes whether the step had drafts for the candidates.
func (p *draftPlan) launched(drafts bool) {
	switch p.unplanned++; {
	case drafts && p.trying:
		p.unplanned, p.failed = 0, p.failed+1
	case drafts:
		p.unplanned, p.failed = 0, 0
	}
}

// forget has the estimates that let nothing be drafted forget a little.
func (p *draftPlan) forget() {
	for i, r := range p.requests {
		if p.candidates[i].Tokens == 0 {
			r.acceptance.Wait()
		}
	}
	if !p.any() {
		p.acceptance.Wait()
	}
}

// planDrafts says how many tokens to draft for each candidate. It reports whether there are any.
// ahead says that tokens of theirs are in flight.
func (s *speculation) planDrafts(ahead bool) bool {
	shape := s.queue.schedule.Shape
	price := func(x draft.Extra) float64 {
		seconds := s.times.Estimate(grown(shape, x))
		if x.Seqs > 0 && seconds > 0 {
			seconds += s.Drafter.Seconds(x.Seqs, x.Longest) + x.Behind
		}
		return seconds
	}
	s.findBehind()
	s.mix(ahead, s.queue.outputs(), s.room(), price)
	return s.plan.drafts(s.Always, s.queue.outputs(), s.room(), price)
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

// findBehind notes what the drafter needs before it can propose for each candidate.
func (s *speculation) findBehind() {
	d, ok := s.Drafter.(draft.Behind)
	if !ok {
		return
	}
	for i, r := range s.plan.requests {
		known := r.known()
		s.plan.candidates[i].Behind = d.Behind(r.sched.ID, known) / float64(min(max(r.sched.Limit-known, 1), shared))
	}
}
