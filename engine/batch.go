package engine

import "slices"

// fill writes the step's batch.
func (e *Engine) fill() {
	b := &e.batch
	seqPages, pairs := 1, false
	for _, r := range e.chosen {
		seqPages = max(seqPages, len(r.seq.Table()))
		pairs = pairs || r.Second > 0
	}
	b.Reset(1, seqPages)
	if e.aloft > 0 {
		b.FutureTokens = e.fed
	}
	table := b.Table(0)
	for _, r := range e.chosen {
		end := r.seq.Len()
		for p := end - r.step; p < end; p++ {
			b.Tokens = append(b.Tokens, r.tokenAt(p))
			b.Positions = append(b.Positions, int32(p))
			if pairs {
				b.Segments = append(b.Segments, r.segment(p))
			}
		}
		table.Slots = e.pool.Slots(table.Slots, &r.seq, r.step)
		r.row = -1
		if end == r.known() {
			r.row = len(b.LogitsIndices)
			b.LogitsIndices = append(b.LogitsIndices, int32(len(b.Tokens)-1))
		}
		b.QStart = append(b.QStart, int32(len(b.Tokens)))
		b.KVLen = append(b.KVLen, int32(end))
		b.RopeLen = append(b.RopeLen, int32(r.known()))
		// What follows a shorter table is what an earlier step left there: for long contexts, clearing it would take longer than all
		// else here.
		at := len(table.Pages)
		table.Pages = slices.Grow(table.Pages, b.SeqPages)[:at+b.SeqPages]
		copy(table.Pages[at:], r.seq.Table())
	}
}

// segment is which of a request's two texts position p belongs to.
func (r *request) segment(p int) int32 {
	if r.Second > 0 && p >= r.Second {
		return 1
	}
	return 0
}
