package engine

import "slices"

// fill writes the step's batch. In it are placeholders for the tokens that current, the step in flight, samples.
func (e *Engine) fill(f, current *InFlight) {
	b := &f.batch
	seqPages, pairs := 1, false
	for i := range f.requests {
		r := f.requests[i].request
		seqPages = max(seqPages, len(r.seq.Table()))
		pairs = pairs || r.Second > 0
	}
	b.Reset(1, seqPages)
	if current != nil {
		b.FutureTokens = len(current.samples)
	}
	table := b.Table(0)
	for i := range f.requests {
		a := &f.requests[i]
		r, end := a.request, a.from+a.tokens
		for p := a.from; p < end; p++ {
			b.Tokens = append(b.Tokens, r.tokenAt(p))
			b.Positions = append(b.Positions, int32(p))
			if pairs {
				b.Segments = append(b.Segments, r.segment(p))
			}
		}
		table.Slots = e.pool.Slots(table.Slots, &r.seq, a.tokens)
		if a.row, a.rows = len(b.LogitsIndices), 0; end == r.known() {
			a.rows = 1
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
