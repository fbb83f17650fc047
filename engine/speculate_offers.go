package engine

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/draft"
)

// offer is what drafters that are asked freely have for a request: the draft of which most tokens are expected to be accepted.
type offer struct {
	by     int         // which of the drafters; nobody: none has any
	silent int         // askings since one had any
	draft  draft.Draft // of the latest asking; valid until the next
}

// nobody is in place of one of the drafters.
const nobody = -1

// askFreely has the drafters that are asked freely offer drafts to all requests that may get one. One of whose offers nothing has been verified of late is asked
// now and then, and so is one for a request that it had nothing for.
func (s *speculation) askFreely() {
	p := &s.plan
	s.asked++
	s.awake = s.awake[:0]
	for i, r := range p.requests {
		r.offer.by, r.offer.draft = nobody, draft.Draft{}
		if s.always || s.waits.steps > 0 || r.offer.silent < 2*engaged || (s.asked+int(r.sched.ID))%wakeEvery == 0 {
			s.awake = append(s.awake, i)
		}
	}
	asked := false
	for k, d := range s.drafters {
		if d.offered = false; d.Drafter == nil || !d.offers || len(s.awake) == 0 || d.declined >= engaged && s.asked%probe > 0 && !s.always {
			continue
		}
		d.sequences = d.sequences[:0]
		for _, i := range s.awake {
			d.ask(s, p.requests[i], min(d.most, p.left[i]))
		}
		asked = true
		if err := d.propose(); err != nil {
			s.stop(d, err)
			continue
		}
		for j, i := range s.awake {
			r, x := p.requests[i], &d.sequences[j].Draft
			n := min(len(x.Tokens), d.sequences[j].Max)
			if n == 0 {
				continue
			}
			d.offered = true
			if o := &r.offer; o.by == nobody || r.estimates[k].Expected(n) > r.estimates[o.by].Expected(len(o.draft.Tokens)) {
				o.by, o.draft = k, *x
			}
		}
	}
	if asked {
		s.countSilence()
	}
}

// wakeEvery is every how many steps drafters that are asked freely are asked for a request that they have long had nothing for: what they find is there in the next steps too.
const wakeEvery = 4

// offered reports whether something was offered to a request, or is expected to be.
func (s *speculation) offered() bool {
	return slices.ContainsFunc(s.plan.requests, func(r *request) bool { return r.offer.by != nobody })
}

// countSilence notes for whom something was offered.
func (s *speculation) countSilence() {
	s.plan.offerless++
	for _, i := range s.awake {
		r := s.plan.requests[i]
		if r.offer.silent++; r.offer.by != nobody {
			r.offer.silent, s.plan.offerless = 0, 0
		}
	}
}

// expectOffers takes it that a request for which something was offered lately, or that nobody was asked for, is going to be offered a draft.
func (s *speculation) expectOffers() {
	for _, r := range s.plan.requests {
		r.offer.by, r.offer.draft = nobody, draft.Draft{}
		if r.offer.silent >= engaged && s.waits.steps%probe > 0 {
			continue
		}
		for k, d := range s.drafters {
			if d.Drafter != nil && d.offers && (r.offer.by == nobody || r.estimates[k].Expected(d.most) > r.estimates[r.offer.by].Expected(s.drafters[r.offer.by].most)) {
				r.offer.by = k
			}
		}
	}
}

// takeOffers gives requests the drafts that were offered to them and are worth it.
func (s *speculation) takeOffers() {
	for i, r := range s.plan.requests {
		if c := &s.plan.candidates[i]; c.Free && c.Tokens > 0 && r.offer.by != nobody {
			r.draft, r.draftedBy = r.offer.draft, r.offer.by
			s.fit(r, s.spare, c.Tokens)
		}
	}
}
