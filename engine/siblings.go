package engine

import (
	"context"
	"slices"
)

// Siblings are further answers to a request's prompt. The prompt is computed once: when its first logits are there, each
// sibling becomes a second holder of the request's pages (kv.Pool.Fork) and draws from the same logits. They part at the
// first page that either writes. A sibling for which there is no room then waits like any request, and finds the prompt's
// whole pages in the cache.

// branch lets the siblings of those who draw their first token draw theirs.
func (e *Engine) branch() {
	for _, d := range e.draws { // as many as there are now
		siblings := d.request.siblings
		d.request.siblings = nil
		for _, s := range siblings {
			e.begin(s)
			if s.lot < 0 || !e.state.Join(&s.sched) {
				if err := e.queue(s); err != nil {
					e.end(s, "", err)
				}
				continue
			}
			s.cached = len(s.tokens)
			s.account = d.request.account
			s.sched.Computed, s.sched.Target = len(s.tokens), len(s.tokens)+1
			e.pool.Fork(&s.seq, &d.request.seq)
			if e.sampler {
				e.draws = append(e.draws, draw{request: s, lot: s.lot, drawn: &e.drawn[s.lot]})
				continue
			}
			if s.Grammar != nil {
				s.findMask(e.prog.Vocab())
			}
			e.draws = append(e.draws, draw{request: s, logits: slices.Clone(d.logits)}) // drawing writes over them
		}
	}
}

// begin makes a request known to the engine.
func (e *Engine) begin(r *request) {
	r.sched.ID = e.nextID
	e.nextID++
	e.byID[r.sched.ID], e.changed = r, true
	e.recorder.Admitted(r.sched.ID, e.since(e.started), &r.Request)
	r.forget = context.AfterFunc(r.ctx, func() { e.giveUp(r) })
}

// queue has a request wait its turn.
func (e *Engine) queue(r *request) error {
	r.sched.Cached, _ = e.pool.Match(r.Salt, e.shareable(r))
	return e.state.Submit(&r.sched)
}
