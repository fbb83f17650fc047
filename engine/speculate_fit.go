package engine

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/kv"
)

// sparePages fills spare with the pages of each rank that are left when the schedule has all that it was promised: a draft takes none of another request's.
func (s *speculation) sparePages(spare []kv.Pages) []kv.Pages {
	spare = spare[:0]
	for _, m := range s.pages.ranks {
		spare = append(spare, m.Available())
	}
	for _, c := range s.queue.schedule.Chunks {
		r := s.queue.byID[c.Request.ID]
		need, spare := s.pages.of(r).Need(&r.seq, c.Tokens), &spare[r.sched.Rank]
		if c.Admit {
			for g := range s.pages.recurrent {
				if need[g] = 1; !s.pages.recurrent[g] {
					need[g] = s.pages.PagesFor(r.sched.Target) // at most
				}
			}
		}
		for g := range spare {
			spare[g] -= need[g]
		}
	}
	return spare
}

// fit cuts a request's draft to what it may have: most tokens, ids of the vocabulary, what its grammar allows, and the spare pages.
func (s *speculation) fit(r *request, spare []kv.Pages, most int) {
	d := &r.draft
	d.Cut(most)
	for i, id := range d.Tokens {
		if id < 0 || int(id) >= s.limits.ids || i < len(d.Tokens)-d.Window && slices.Contains(r.Ends, id) { // nothing comes after an end
			d.Cut(i)
			break
		}
	}
	if s.pages.hasStates() { // which go on by a token at a time
		n := 0
		for n < len(d.Tokens) && d.Parent(n) == n-1 {
			n++
		}
		d.Cut(n)
	}
	r.pruneByGrammar()
	d.Cut(s.reserve(r, spare, len(d.Tokens)))
}

// reserve takes pages for a draft of n tokens of a request out of spare, or for fewer where there are too few pages. It returns for how many.
func (s *speculation) reserve(r *request, spare []kv.Pages, n int) int {
	chunk, m, left := r.sched.Target-r.sched.Computed, s.pages.of(r), &spare[r.sched.Rank]
	before := m.Need(&r.seq, chunk)
	for ; n > 0; n /= 2 {
		more := m.Need(&r.seq, chunk+n)
		for g := range s.pages.recurrent {
			if more[g] -= before[g]; s.pages.hasStates() {
				more[g]++ // what the step writes to is copied before
			}
		}
		if more.Fits(*left) {
			for g := range more {
				left[g] -= more[g]
			}
			return n
		}
	}
	return 0
}

// take is a request's pages for its next n tokens and its draft behind them; with recurrent layers the request keeps what it had before. Without
// pages for both it gets those for the tokens.
func (s *speculation) take(r *request, n int) bool {
	if k := len(r.draft.Tokens); k > 0 {
		if s.pages.hasStates() {
			s.pages.of(r).Fork(&r.before, &r.seq)
		}
		if s.pages.take(r, n+k) {
			return true
		}
		s.pages.of(r).Free(&r.before)
		r.draft = draft.Draft{}
	}
	return s.pages.take(r, n)
}
