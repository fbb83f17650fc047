package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/engine/draft"
)

// Beside is a drafter beside another: of the drafts for a request those of the one are verified that bring most tokens a second.
type Beside struct {
	draft.Drafter
	Tokens int // of a draft, at most; 0: Speculation.Tokens
}

// drafter is one that proposes drafts, and what becomes of them.
type drafter struct {
	draft.Drafter // nil: it has failed
	name          string
	most          int              // tokens of a draft
	offers        bool             // asking it takes next to nothing: it is asked before it is planned who drafts
	paid          int              // otherwise, which of draft.Extra's drafters it is
	acceptance    draft.Acceptance // of all requests
	sequences     []draft.Sequence // that it is asked for in the step at hand
	offered       bool             // to somebody in the step at hand
	declined      int              // steps in a row in which nothing that it offered was verified
	quiet         int              // steps since one had a draft of its
}

// freely is how long an asking takes at most that is not planned, s.
const freely = 10e-6

// setDrafters takes the drafters of the settings over.
func (s *speculation) setDrafters(o Speculation) {
	if o.Drafter == nil {
		return
	}
	paid := 0
	var names []string
	for _, b := range append([]Beside{{Drafter: o.Drafter}}, o.Beside...) {
		d := &drafter{Drafter: b.Drafter, name: b.Name(), most: cmp.Or(b.Tokens, o.Tokens)}
		branching, branches := b.Drafter.(draft.Branching)
		d.acceptance.Trees = branches && branching.Trees()
		_, hidden := b.Drafter.(draft.FromHidden)
		_, whole := b.Drafter.(draft.Observer)
		_, late := b.Drafter.(draft.Behind)
		if whole {
			d.acceptance.Whole = d.most
		}
		if d.offers = !hidden && !whole && !late && concurrent(b.Drafter) && b.Seconds(1, 1) < freely; !d.offers {
			d.paid, paid = paid, paid+1
		}
		s.drafters, names = append(s.drafters, d), append(names, d.name)
	}
	s.method = strings.Join(names, "+")
	s.plan.lookedUp = paid == 0
}

// concurrent reports whether a drafter may be asked while the device is at a step.
func concurrent(d draft.Drafter) bool {
	c, ok := d.(draft.Concurrent)
	return ok && c.Concurrent()
}

// Close ends drafters that no engine has taken over.
func (s *Speculation) Close() (err error) {
	if s.Drafter != nil {
		err = s.Drafter.Close()
	}
	for _, b := range s.Beside {
		err = errors.Join(err, b.Close())
	}
	return err
}

// checkBesides refuses drafters of which there are too many, and drafts that are too long.
func (s *Speculation) checkBesides() error {
	for _, b := range s.Beside {
		if b.Tokens < 0 || b.Tokens > draft.MaxTokens {
			return fmt.Errorf("engine: drafts of %d tokens by %s (num_speculative_tokens); 1 to %d are possible", b.Tokens, b.Name(), draft.MaxTokens)
		}
	}
	if n := 1 + len(s.Beside); n > draft.MaxDrafters {
		return fmt.Errorf("engine: %d drafters; at most %d can be asked beside one another", n, draft.MaxDrafters)
	}
	return nil
}

// drafts reports whether a drafter works.
func (s *speculation) drafts() bool {
	return slices.ContainsFunc(s.drafters, func(d *drafter) bool { return d.Drafter != nil })
}

// working calls f with every drafter that works.
func (s *speculation) working(f func(*drafter)) {
	for _, d := range s.drafters {
		if d.Drafter != nil {
			f(d)
		}
	}
}

// fromHidden calls f with every drafter that works and goes on from hidden states.
func (s *speculation) fromHidden(f func(*drafter, draft.FromHidden)) {
	for _, d := range s.drafters {
		if h, ok := d.Drafter.(draft.FromHidden); ok {
			f(d, h)
		}
	}
}

// preempted tells drafters with caches of their own whose pages a schedule takes.
func (s *speculation) preempted(q *queue) {
	for _, c := range q.schedule.Preempt {
		id := c.Request.ID
		s.paged(func(p draft.Paged) error { return p.Preempted(id, q.byID[id].away) })
	}
}

// resumed tells them that a request is back from host memory.
func (s *speculation) resumed(r *request) {
	s.paged(func(p draft.Paged) error { return p.Resumed(r.sched.ID) })
}

// paged calls f with every drafter that works and has a paged cache of its own. One that fails is switched off.
func (s *speculation) paged(f func(draft.Paged) error) {
	for _, d := range s.drafters {
		if p, ok := d.Drafter.(draft.Paged); ok {
			if err := f(p); err != nil {
				s.stop(d, err)
			}
		}
	}
}

// concurrent reports whether drafts can be made while the device is at a step.
func (s *speculation) concurrent() bool {
	return s.drafts() && !slices.ContainsFunc(s.drafters, func(d *drafter) bool { return d.Drafter != nil && !concurrent(d.Drafter) })
}

// ask adds a request to those that the drafter is to propose drafts for, of so many tokens at most.
func (d *drafter) ask(s *speculation, r *request, most int) {
	if r.choose == nil {
		r.choose = func(logits []float32, drafted []int32) int32 { return s.token(r, logits, drafted) }
	}
	d.sequences = append(d.sequences, draft.Sequence{ID: r.sched.ID, Salt: r.Salt, Tokens: r.tokens, Max: most, Choose: r.choose})
}

// propose has the drafter propose drafts; a panic is an error.
func (d *drafter) propose() (err error) {
	defer catch(&err)
	return d.Propose(d.sequences)
}

// estimate gives a request estimates of its own for each drafter.
func (s *speculation) estimate(r *request) {
	if r.estimates != nil {
		return
	}
	r.estimates = make([]draft.Acceptance, len(s.drafters))
	for k, d := range s.drafters {
		r.estimates[k] = draft.Acceptance{Of: &d.acceptance, Trees: d.acceptance.Trees, Whole: d.acceptance.Whole}
	}
	r.silent, r.offer.silent = min(s.plan.silent, engaged), min(s.plan.offerless, engaged)
}

// stop goes on without a drafter that failed.
func (s *speculation) stop(d *drafter, err error) {
	err = errors.Join(err, d.Close())
	if d.Drafter = nil; s.failed != nil {
		others := "answers go on without"
		if s.drafts() {
			others = "other drafters go on"
		}
		s.failed(fmt.Errorf("engine: drafting by %s failed and is switched off; %s: %w", d.name, others, err))
	}
	if !s.drafts() {
		s.recorder.DraftingStopped()
	}
}
