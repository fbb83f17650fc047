package engine

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
)

// fill writes the step's batch. In it are placeholders for the tokens that current, the step in flight, samples.
func (f *InFlight) fill(p *pages, current *InFlight) {
	b := &f.batch
	seqPages, pairs, trees := 1, false, false
	for i := range f.requests {
		r := f.requests[i].request
		seqPages = max(seqPages, r.seq.Pages())
		pairs = pairs || r.Second > 0
		trees = trees || f.requests[i].drafted > 0 && !r.draft.Chain()
	}
	b.Reset(p.Groups(), seqPages)
	if current != nil {
		b.FutureTokens = len(current.samples)
	}
	for i := range f.requests {
		a := &f.requests[i]
		r, end := a.request, a.from+a.tokens
		for at := a.from; at < end; at++ {
			b.Tokens = append(b.Tokens, r.tokenAt(at))
			b.Positions = append(b.Positions, int32(at))
			if at < len(r.Prompt) && r.Embeddings != nil && !r.denoising.unseen() {
				width := len(r.Embeddings) / len(r.Prompt)
				b.EmbeddingRows = append(b.EmbeddingRows, int32(len(b.Tokens)-1))
				b.Embeddings = append(b.Embeddings, r.Embeddings[at*width:(at+1)*width]...)
			}
			if pairs {
				b.Segments = append(b.Segments, r.segment(at))
			}
		}
		last := len(b.Tokens) - 1
		f.fillPromptRows(a, len(b.Tokens)-a.tokens)
		a.fillDraft(b, trees, pairs)
		p.fillTables(b, r, a.tokens+a.drafted)
		if a.row, a.rows = len(b.LogitsIndices), 0; r.denoising != nil {
			f.fillBlockRows(a, len(b.Tokens)-a.tokens)
		} else if end == r.known() {
			a.rows = 1 + a.drafted
			for row := last; row < len(b.Tokens); row++ {
				b.LogitsIndices = append(b.LogitsIndices, int32(row))
			}
		}
		b.QStart = append(b.QStart, int32(len(b.Tokens)))
		b.KVLen = append(b.KVLen, int32(end+a.drafted))
		b.RopeLen = append(b.RopeLen, int32(r.known()))
	}
	f.fillAdapters()
}

// fillBlockRows adds the rows that propose tokens for the request's block to those whose logits are wanted. first is the row of the advance's first token.
func (f *InFlight) fillBlockRows(a *advance, first int) {
	d := a.request.denoising
	lo, hi := d.logitsRows(a.from)
	d.lo, a.rows = lo, hi-lo
	for at := lo; at < hi; at++ {
		f.batch.LogitsIndices = append(f.batch.LogitsIndices, int32(first+at-a.from))
	}
}

// fillDraft adds the rows of the request's draft behind its known tokens, of which the last is the root of the tree. trees says that the batch has
// token trees, pairs that it has segments.
func (a *advance) fillDraft(b *backend.Batch, trees, pairs bool) {
	d, last, root := &a.request.draft, a.from+a.tokens-1, len(b.Tokens)-1
	for i, id := range d.Tokens[:a.drafted] {
		depth := 1
		for p := d.Parent(i); p >= 0; p = d.Parent(p) {
			depth++
		}
		b.Tokens = append(b.Tokens, id)
		b.Positions = append(b.Positions, int32(last+depth))
		if pairs {
			b.Segments = append(b.Segments, a.request.segment(last+depth))
		}
	}
	if !trees {
		return
	}
	for len(b.Ancestors) < len(b.Tokens) {
		b.Ancestors = append(b.Ancestors, 0)
	}
	if a.drafted == 0 || d.Chain() {
		b.TreeLen = append(b.TreeLen, 0)
		return
	}
	b.TreeLen = append(b.TreeLen, int32(1+a.drafted))
	b.Ancestors[root] = 1
	for i := range a.drafted {
		b.Ancestors[root+1+i] = b.Ancestors[root+1+d.Parent(i)] | 1<<(i+1)
	}
}

// fillTables adds a request, whose last n tokens the step computes, to the tables of all cache groups.
func (p *pages) fillTables(b *backend.Batch, r *request, n int) {
	for group := range b.Tables {
		t := &b.Tables[group]
		if p.recurrent[group] {
			t.States = append(t.States, p.base(r, group)+p.of(r).State(&r.seq, group))
			continue
		}
		slots, pages := len(t.Slots), len(t.Pages)
		t.Slots = p.of(r).Slots(t.Slots, &r.seq, group, n)
		// What follows a shorter table is what an earlier step left there: for long contexts, clearing it would take longer than all
		// else here.
		end := len(t.Pages) + b.SeqPages
		t.Pages = p.of(r).Table(slices.Grow(t.Pages, b.SeqPages), &r.seq, group)
		if base := p.base(r, group); base > 0 {
			shift(t.Slots[slots:], base*int32(p.PageSize()))
			shift(t.Pages[pages:], base)
		}
		t.Pages = t.Pages[:end]
	}
}

func shift(list []int32, by int32) {
	for i := range list {
		list[i] += by
	}
}

// segment is which of a request's two texts position p belongs to.
func (r *request) segment(p int) int32 {
	if r.Second > 0 && p >= r.Second {
		return 1
	}
	return 0
}
