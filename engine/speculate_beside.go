package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/engine/draft"
)

// beside is a drafter that takes next to nothing to ask, beside the one whose drafts are computed.
type beside struct {
	draft.Drafter                  // nil: it has failed
	acceptance    draft.Acceptance // of all requests
}

// offer is what drafters beside have for a request: the tokens that most are expected to be accepted of.
type offer struct {
	by         int                // which of them; byMain: none has any
	silent     int                // askings since one had any
	tokens     []int32            // of the latest asking; valid until the next
	acceptance []draft.Acceptance // of the request's drafts, by drafter
}

// byMain stands for Speculation.Drafter among the drafters of a request's draft.
const byMain = -1

// addBesides takes drafters over that are asked beside the one that computes.
func (s *speculation) addBesides() {
	method := []string{s.name}
	for _, d := range s.Beside {
		s.besides = append(s.besides, &beside{Drafter: d})
		method = append(method, d.Name())
	}
	s.method = strings.Join(method, "+")
}

// checkBesides refuses drafters beside that are not free to ask.
func (s *Speculation) checkBesides() error {
	for _, d := range s.Beside {
		if c, ok := d.(draft.Concurrent); !ok || !c.Concurrent() {
			return fmt.Errorf("engine: drafts of %s are computed on the device; beside another drafter only those go that look them up", d.Name())
		}
	}
	return nil
}

// askBesides has the drafters beside offer drafts to all requests that may get one.
func (s *speculation) askBesides() {
	if len(s.besides) == 0 {
		return
	}
	p := &s.plan
	s.offered = s.offered[:0]
	for i, r := range p.requests {
		s.offered = append(s.offered, draft.Sequence{ID: r.sched.ID, Salt: r.Salt, Tokens: r.tokens, Max: p.candidates[i].Max})
		s.beginOffer(r)
		r.offer.by, r.offer.tokens = byMain, nil
		r.offer.silent++
	}
	for k, b := range s.besides {
		if b.Drafter == nil {
			continue
		}
		if err := b.ask(s.offered); err != nil {
			s.stopBeside(b, err)
			continue
		}
		for i, r := range p.requests {
			d := &s.offered[i].Draft
			if len(d.Tokens) == 0 || !d.Chain() {
				continue
			}
			if o := &r.offer; o.by == byMain || o.acceptance[k].Expected(len(d.Tokens)) > o.acceptance[o.by].Expected(len(o.tokens)) {
				o.by, o.tokens, o.silent = k, d.Tokens, 0
			}
		}
	}
}

// beginOffer gives a request estimates of its own.
func (s *speculation) beginOffer(r *request) {
	if r.offer.acceptance != nil {
		return
	}
	r.offer.by, r.offer.acceptance = byMain, make([]draft.Acceptance, len(s.besides))
	for k, b := range s.besides {
		r.offer.acceptance[k].Of = &b.acceptance
	}
}

// expectOffers takes it that a request for which something was offered lately, or that nobody was asked for, is going to be offered a draft.
func (s *speculation) expectOffers() {
	for _, r := range s.plan.requests {
		if s.beginOffer(r); r.offer.silent >= engaged && s.waits.steps%probe > 0 {
			r.offer.by = byMain
		} else if r.offer.by == byMain {
			r.offer.by = 0
		}
	}
}

// ask is Propose; a panic is an error.
func (b *beside) ask(seqs []draft.Sequence) (err error) {
	defer catch(&err)
	return b.Propose(seqs)
}

// mix decides whose drafts each request's are, of the drafter that computes them or of those beside: of all those, of all these, or of each request what most tokens are
// expected of, whichever brings most tokens a second. ahead says that what is offered is not known, since a token is in flight, but expected.
func (s *speculation) mix(ahead bool, outputs, room int, price func(draft.Extra) float64) {
	p := &s.plan
	if len(s.besides) == 0 {
		return
	}
	if ahead {
		s.expectOffers()
	}
	offered := false
	for _, r := range p.requests {
		offered = offered || r.offer.acceptance != nil && r.offer.by != byMain
	}
	if !offered {
		return
	}
	computed := append(s.mains[:0], p.candidates...)
	s.mains = computed
	each := func(take func(c, o *draft.Candidate) *draft.Candidate) {
		for i, r := range p.requests {
			c, o := &computed[i], draft.Candidate{}
			if by := r.offer.by; r.offer.acceptance != nil && by != byMain {
				o = draft.Candidate{Acceptance: &r.offer.acceptance[by], Max: min(c.Max, len(r.offer.tokens)), Context: c.Context, Free: true}
				if ahead {
					o.Max = c.Max
				}
			}
			p.candidates[i] = *take(c, &o)
		}
	}
	best := func(c, o *draft.Candidate) *draft.Candidate {
		if o.Max > 0 && o.Acceptance.Expected(o.Max) >= c.Acceptance.Expected(c.Max) {
			return o
		}
		return c
	}
	lookedUp := func(_, o *draft.Candidate) *draft.Candidate {
		if o.Acceptance == nil { // nothing is offered
			o.Acceptance = &p.acceptance
		}
		return o
	}
	none := func(c, _ *draft.Candidate) *draft.Candidate { return c }
	chosen, gain := best, 0.0
	if !s.Always {
		for _, take := range []func(c, o *draft.Candidate) *draft.Candidate{best, lookedUp, none} {
			each(take)
			if g := draft.Plan(p.candidates, outputs, room, worth, price); g > gain {
				chosen, gain = take, g
			}
		}
	}
	each(chosen)
}

// forgetOffers has the estimates that let nothing that was offered be verified forget a little.
func (s *speculation) forgetOffers() {
	if len(s.besides) == 0 {
		return
	}
	taken := make([]bool, len(s.besides))
	for i, r := range s.plan.requests {
		if r.offer.acceptance == nil || r.offer.by == byMain {
			continue
		}
		if c := &s.plan.candidates[i]; c.Free && c.Tokens > 0 {
			taken[r.offer.by] = true
		} else {
			r.offer.acceptance[r.offer.by].Wait()
		}
	}
	for k, b := range s.besides {
		if !taken[k] {
			b.acceptance.Wait()
		}
	}
}

// stopBeside goes on without a drafter beside that failed.
func (s *speculation) stopBeside(b *beside, err error) {
	err = errors.Join(err, b.Close())
	if s.Failed != nil {
		s.Failed(fmt.Errorf("engine: drafting by %s failed and is switched off; other drafters go on: %w", b.Name(), err))
	}
	b.Drafter = nil
}

// all calls f with every drafter that works.
func (s *speculation) all(f func(draft.Drafter)) {
	if s.Drafter == nil {
		return
	}
	f(s.Drafter)
	for _, b := range s.besides {
		if b.Drafter != nil {
			f(b.Drafter)
		}
	}
}

// drafterOf is the name of the drafter of a request's draft.
func (s *speculation) drafterOf(r *request) string {
	if r.draftedBy == byMain {
		return s.name
	}
	return s.besides[r.draftedBy].Name()
}
