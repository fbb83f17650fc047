package engine

import "github.com/ridge-llm/ridge/engine/draft"

// next is the row of a draft that comes after row when the token there is id, both counted from the row before the draft; false: there is none.
func (o *output) next(row int, id int32) (int, bool) {
	if o.rows <= 1 {
		return 0, false
	}
	at := o.request.draft.Child(row-1, id)
	return at + 1, at >= 0
}

// draftCounts are figures of all drafts so far.
type draftCounts struct {
	drafts, tokens, accepted int64
	acceptedAt               [draft.MaxTokens]int64 // by the number of tokens before them in the draft
}

// count adds the figures.
func (s *speculation) count(to *Stats) {
	to.DraftMethod = ""
	if s.drafts() {
		to.DraftMethod, to.MaxDraft = s.method, 0
		s.working(func(d *drafter) { to.MaxDraft = max(to.MaxDraft, d.most) })
	}
	c := &s.counts
	to.Drafts, to.DraftTokens, to.AcceptedTokens, to.AcceptedAt = c.drafts, c.tokens, c.accepted, c.acceptedAt
}

// settle notes what of a draft was accepted and, if the request goes on, takes back the cache rows of what was not. Rows of a tree stay as far
// as the accepted ones lie one behind the other; the tokens after them are computed again.
func (s *speculation) settle(o *output) {
	r, c := o.request, &s.counts
	d := s.drafters[r.draftedBy]
	s.quiet, d.quiet = 0, 0
	c.drafts++
	c.tokens += int64(o.rows - 1)
	c.accepted += int64(o.accepted)
	r.drafted, r.accepted = r.drafted+o.rows-1, r.accepted+o.accepted
	for i := range o.accepted {
		c.acceptedAt[i]++
	}
	if d.acceptance.Trees {
		r.estimates[r.draftedBy].ObserveTree(o.path[:o.rows-1])
	} else {
		r.estimates[r.draftedBy].Observe(r.draft.Depth(), o.accepted)
	}
	if learns, ok := d.Drafter.(draft.Observer); ok && o.watched {
		learns.Observe(r.sched.ID, o.after[:r.draft.Window])
	}
	computed := min(o.position+o.inOrder, len(r.tokens)-1)
	r.draft = draft.Draft{}
	if o.reason != "" || o.err != nil {
		return
	}
	s.queue.stale = true
	if s.pages.hasStates() {
		s.pages.settleState(r, computed)
		return
	}
	s.pages.truncate(r, computed)
}
