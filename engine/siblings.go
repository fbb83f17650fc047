package engine

import "slices"

// Siblings are further answers to a request's prompt. The prompt is computed once: when its first logits are there, each
// sibling becomes a second holder of the request's pages (kv.Manager.Fork) and samples from the same logits. They part at the
// first page that either writes. A sibling for which there is no room then waits like any request, and finds the prompt's
// whole pages in the cache.

// branch has the siblings of the requests that get their first token from a step join them, if there is room; else they queue.
func (l *loop) branch(f *InFlight) {
	for i := range f.requests {
		r := f.requests[i].request
		if f.requests[i].rows == 0 || r.ended {
			continue
		}
		siblings := r.siblings
		r.siblings = nil
		for _, s := range siblings {
			l.begin(s, r.sched.ID)
			s.slots, s.numbers, s.acts, s.salt = slices.Clone(r.slots), r.numbers, r.acts, r.salt
			l.resident.pool.Share(s.slots)
			at := slices.IndexFunc(f.outputs, func(o output) bool { return o.request == s })
			if s.sched.Rank = r.sched.Rank; at >= 0 && l.queue.state.Join(&s.sched) {
				s.cached, s.ledger = len(s.tokens), r.ledger
				s.sched.Computed = len(s.tokens)
				l.pages.of(r).Fork(&s.seq, &r.seq)
				continue
			}
			if at >= 0 {
				f.outputs = slices.Delete(f.outputs, at, at+1)
			}
			s.pending = 0
			if err := l.queue.enqueue(s); err != nil {
				l.end(s, "", err)
			}
		}
	}
}
