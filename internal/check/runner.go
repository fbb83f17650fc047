package check

import (
	"cmp"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
)

// runner drives a program without an engine: sequence s owns the pages from s × SeqPages on.
type runner struct {
	prog   compile.Runner
	past   []int // tokens of each sequence in the cache
	logits []float32
	slots  []int // of each sequence's adapter; nil: there are none
}

// forward computes the next tokens of some sequences in one step and returns the logits of every row, or of each
// sequence's last row alone, as rows of Vocab numbers that are valid until the next call.
func (r *runner) forward(tokens map[int][]int32, order []int, lastOnly bool) ([]float32, error) {
	lim := r.prog.Limits()
	b := &backend.Batch{}
	b.Reset(1, lim.SeqPages)
	table := b.Table(0)
	for _, s := range order {
		for i, id := range tokens[s] {
			p := r.past[s] + i
			b.Tokens = append(b.Tokens, id)
			b.Positions = append(b.Positions, int32(p))
			table.Slots = append(table.Slots, int32(s*lim.SeqPages*lim.PageSize+p))
			if !lastOnly || i == len(tokens[s])-1 {
				b.LogitsIndices = append(b.LogitsIndices, int32(len(b.Tokens)-1))
			}
		}
		r.past[s] += len(tokens[s])
		b.QStart = append(b.QStart, int32(len(b.Tokens)))
		b.KVLen = append(b.KVLen, int32(r.past[s]))
		b.RopeLen = append(b.RopeLen, int32(r.past[s]))
		for p := range lim.SeqPages {
			table.Pages = append(table.Pages, int32(s*lim.SeqPages+p))
		}
	}
	for i, s := range order {
		if r.slots != nil && r.slots[s] >= 0 {
			b.Adapters = append(b.Adapters, backend.SeqAdapter{Seq: int32(i), Slot: int32(r.slots[s]), Scale: 1})
		}
	}
	slices.SortStableFunc(b.Adapters, func(x, y backend.SeqAdapter) int { return cmp.Compare(x.Slot, y.Slot) })
	if err := b.Check(lim, r.prog.Ids()); err != nil {
		return nil, err
	}
	if err := r.prog.Run(b); err != nil {
		return nil, err
	}
	n := len(b.LogitsIndices) * r.prog.Vocab()
	if cap(r.logits) < n {
		r.logits = make([]float32, n)
	}
	r.logits = r.logits[:n]
	return r.logits, r.prog.Logits(r.logits, 0, len(b.LogitsIndices))
}

// greedy computes n tokens that follow sequence s, whose last token so far is last.
func (r *runner) greedy(s int, last int32, n int) ([]int32, error) {
	var ids []int32
	for len(ids) < n {
		row, err := r.forward(map[int][]int32{s: {last}}, []int{s}, true)
		if err != nil {
			return nil, err
		}
		last = argmax(row)
		ids = append(ids, last)
	}
	return ids, nil
}

// argmax is the first of the largest.
func argmax(row []float32) int32 {
	best := 0
	for i, x := range row {
		if x > row[best] {
			best = i
		}
	}
	return int32(best)
}
