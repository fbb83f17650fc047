package engine

import "github.com/ridge-llm/ridge/engine/draft"

// Run ahead and drafts: of a token in flight nothing can be drafted, and how many tokens a draft in flight brings is not known. So a request
// that is to have a draft in the next step, or has one in the step in flight, waits for its tokens. Where the others would lose by waiting
// with it, it waits apart: the next step is launched ahead without it, and it goes on, with its draft, in the step after that. A step
// for which no draft is worth it, or of whose requests the drafter has had nothing to say of late, is launched ahead as without a drafter.

// Wait is how a request waits for its tokens in flight.
type Wait int

const (
	WaitApart Wait = 1 + iota // the next step is launched ahead without it
	WaitBatch                 // the next step waits with it
)

// engaged is how often nothing comes of asking the drafter before a request does not wait for that any more, and probe every how many steps it
// does in any case.
const engaged, probe = 8, 16

// waits is which requests of the step in flight wait for its tokens.
type waits struct {
	requests []*request
	batch    bool // the next step is not launched ahead
	steps    int  // so far
}

// await decides which requests of the step in flight wait for its tokens. Scheduled is the next step as if all went on by one token. gap is
// for how long the device has nothing to do before a step that is not launched ahead, s. It reports whether requests wait apart: the next
// step has to be scheduled again, without them.
func (s *speculation) await(f *InFlight, gap float64) (apart bool) {
	w := &s.waits
	w.steps++
	w.requests, w.batch = w.requests[:0], false
	for i := range f.outputs {
		if o := &f.outputs[i]; o.rows > 1 && !o.request.ended {
			w.requests = append(w.requests, o.request)
		}
	}
	must := len(w.requests) > 0
	if s.drafts() {
		must = s.awaitDrafts() || must
	}
	if len(w.requests) == 0 {
		return false
	}
	how := w.requests[0].ForcedWaits[w.requests[0].known()]
	if how == 0 {
		how = s.howToWait(must, gap)
	}
	if how == 0 {
		s.plan.launched(false)
		return false
	}
	w.batch = w.batch || how == WaitBatch
	for _, r := range w.requests {
		s.recorder.Waits(r.sched.ID, r.known(), how)
		if r.waits = !w.batch && r.pending > 0; r.waits {
			r.sched.Target = r.sched.Computed
		}
	}
	return !w.batch
}

// awaitDrafts adds the requests for which a draft is worth it in the next step and that would have to wait for their tokens for its sake. must says that they wait
// whether it pays or not.
func (s *speculation) awaitDrafts() (must bool) {
	w, p := &s.waits, &s.plan
	s.fromHidden(func(d *drafter, _ draft.FromHidden) {
		if s.always || d.quiet < engaged {
			w.batch = true // it takes in what the step leaves, of prompts too, before the next step overwrites it
		}
	})
	s.find(true)
	for _, r := range p.forced {
		if r.ForcedWaits[r.known()] != 0 && len(r.draft.Tokens) == 0 {
			w.requests = append(w.requests, r)
		}
	}
	if p.candidates = p.candidates[:0]; len(p.requests) == 0 {
		return false
	}
	if !s.planDrafts(true) && !w.batch {
		if p.launched(false); w.steps%probe == 0 {
			s.settleEstimates(1)
		}
	}
	for i, r := range p.requests {
		c := &p.candidates[i]
		switch {
		case len(r.draft.Tokens) > 0 || r.pending == 0 && s.concurrent(): // it waits already, or has nothing to wait for
		case !s.always && !c.Free && r.silent >= engaged && w.steps%probe > 0:
			c.Tokens = 0
		case c.Tokens > 0:
			w.requests = append(w.requests, r)
		}
	}
	return s.always || w.batch || p.trying
}

// howToWait is with what most tokens come, as steps are priced: the next step waits for the tokens of those that are to have drafts, or is
// launched without them, and they take part in every other step; or, unless requests must wait, nobody waits and nothing is drafted, which is 0.
func (s *speculation) howToWait(must bool, gap float64) Wait {
	all, outputs := s.queue.schedule.Shape, float64(s.queue.outputs())
	others := all
	for _, r := range s.waits.requests {
		others = others.Sub(r.sched.Computed, r.sched.Target-r.sched.Computed, true)
	}
	drafts, accepted := draft.Sum(s.plan.candidates)
	times := s.prices.times
	plain, with := times.Estimate(all), times.Estimate(grown(all, drafts))
	if plain <= 0 || with <= 0 {
		return WaitBatch
	}
	how, best, idle := Wait(0), (1+worth)*outputs/max(plain, gap), gap
	if drafts.Computed() > 0 {
		idle += s.seconds(drafts)
	}
	usual := s.usual()
	if usual == 0 {
		usual = outputs / max(plain, gap)
	}
	if must || outputs+accepted > (1+worth)*(outputs+usual*(with+idle-max(plain, gap))) {
		how, best = WaitBatch, (outputs+accepted)/(with+idle)
	}
	if s.waits.batch || !s.concurrent() || others.Tokens <= 0 {
		return how
	}
	without := max(times.Estimate(others), idle)
	if rate := (2*outputs - float64(len(s.waits.requests)) + accepted) / (max(with, gap) + without); rate > best {
		how = WaitApart
	}
	return how
}
