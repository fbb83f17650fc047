package engine

import (
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/kv"
)

// lend gives a drafter that computes in the model's cache room there: to each sequence that is to have a draft a fork, whose tokens from the first that is not computed
// on have slots of their own. It takes pages that nothing else of the step needs. A sequence without room gets no draft.
func (s *speculation) lend(d *drafter) error {
	if in, ok := d.Drafter.(draft.InCache); !ok || !in.InCache() {
		return nil
	}
	s.beside = s.sparePages(s.beside)
	spare := s.beside[0] // the drafter goes on from one device's layers
	kept := d.sequences[:0]
	for i := range d.sequences {
		q := d.sequences[i]
		r := s.queue.byID[q.ID]
		n := len(q.Tokens) - r.seq.Len() + q.Max - 1 // the draft's last token is not computed
		if len(kept) == len(s.lent) {
			s.lent = append(s.lent, kv.Seq{})
		}
		fork := &s.lent[len(kept)]
		s.pages.Fork(fork, &r.seq)
		need, ok := s.pages.Need(fork, n), false
		if need.Fits(spare) {
			s.pages.copies, ok = s.pages.Append(fork, n, s.pages.copies)
		}
		if !ok {
			s.pages.Free(fork)
			continue
		}
		for g := range spare {
			spare[g] -= need[g]
		}
		q.Computed = r.seq.Len()
		q.Cache = q.Cache[:0]
		for g := range s.pages.recurrent {
			q.Cache = append(q.Cache, draft.Lent{Slots: s.pages.Slots(nil, fork, g, n), Pages: s.pages.Table(nil, fork, g)})
		}
		kept = append(kept, q)
	}
	d.sequences = kept
	return s.pages.copyPages()
}

// takeBack frees what was lent.
func (s *speculation) takeBack() {
	for i := range s.lent {
		s.pages.Free(&s.lent[i])
	}
	s.lent = s.lent[:0]
}
