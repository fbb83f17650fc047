package engine

import (
	"context"
	"slices"
)

// Siblings are further answers to a request's prompt. The prompt is computed once: when its first logits are there, each
// sibling becomes a second holder of the request's pages (kv.Manager.Fork) and samples from the same logits. They part at the
// first page that either writes. A sibling for which there is no room then waits like any request, and finds the prompt's
// whole pages in the cache.

// branch has the siblings of the requests that get their first token from a step join them, if there is room; else they queue.
func (e *Engine) branch(f *InFlight) {
	for i := range f.requests {
		r := f.requests[i].request
		if f.requests[i].rows == 0 || r.ended {
			continue
		}
		siblings := r.siblings
		r.siblings = nil
		for _, s := range siblings {
			e.begin(s, r.sched.ID)
			s.slots, s.numbers, s.acts, s.salt = slices.Clone(r.slots), r.numbers, r.acts, r.salt
			e.resident.pool.Share(s.slots)
			at := slices.IndexFunc(f.outputs, func(o output) bool { return o.request == s })
			if at >= 0 && e.queue.state.Join(&s.sched) {
				s.cached, s.ledger = len(s.tokens), r.ledger
				s.sched.Computed = len(s.tokens)
				e.pages.Fork(&s.seq, &r.seq)
				continue
			}
			if at >= 0 {
				f.outputs = slices.Delete(f.outputs, at, at+1)
			}
			s.pending = 0
			if err := e.enqueue(s); err != nil {
				e.end(s, "", err)
			}
		}
	}
}

// begin makes a request known to the engine.
func (e *Engine) begin(r *request, parent int64) {
	e.queue.add(r)
	e.recorder.Admitted(r.sched.ID, parent, e.meter.sinceStart(), &r.Request)
	r.forget = context.AfterFunc(r.ctx, func() { e.inbox.giveUp(r) })
}

// enqueue has a request wait its turn.
func (e *Engine) enqueue(r *request) error {
	r.sched.Cached, _ = e.pages.Match(r.salt, r.shareable())
	return e.queue.state.Submit(&r.sched)
}
