package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/engine/draft"
)

// note takes note of the draft that the step verifies for a request, if there is one.
func (s *speculation) note(f *InFlight, r *request) {
	d := &r.draft
	if len(d.Tokens) == 0 {
		return
	}
	s.recorder.Drafted(r.sched.ID, *d)
	x := &f.drafts
	if name := s.drafters[r.draftedBy].name; x.Drafter == "" {
		x.Drafter = name
	} else if !slices.Contains(strings.Split(x.Drafter, "+"), name) {
		x.Drafter += "+" + name
	}
	x.ExpectedGain, x.PredictedDrafting = s.plan.gain, time.Duration(s.plan.drafting*float64(time.Second))
	x.Drafts++
	x.DraftTokens += len(d.Tokens)
	if x.LongestDraft = max(x.LongestDraft, d.Depth()); !d.Chain() {
		x.DraftTrees++
	}
}

// proposeForced gives requests whose drafts are known theirs.
func (s *speculation) proposeForced() {
	if len(s.plan.forced) == 0 {
		return
	}
	s.beside = s.sparePages(s.beside)
	room := s.room()
	for _, r := range s.plan.forced {
		d := r.ForcedDrafts[len(r.tokens)]
		r.draft, r.draftedBy = draft.Draft{Tokens: d.Tokens, Parents: d.Parents}, 0 // which fit may cut
		s.fit(r, s.beside, max(room, 0))
		room -= len(r.draft.Tokens)
	}
}
