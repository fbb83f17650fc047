package check

import (
	"cmp"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
)

// runner drives a program without an engine: sequence s owns the pages from s × SeqPages on, and state s.
type runner struct {
	prog   compile.Runner
	past   []int   // tokens of each sequence in the cache
	next   []int32 // of each sequence: the likeliest token after its prompt
	logits []float32
	slots  []int // of each sequence's adapter; nil: there are none
	// whole says that sequences are continued by computing all of them again, as upstream's were: among equal scores of an indexer the number
	// of keys decides, and so what earlier rows were.
	whole bool
}

// greedyWhole is greedy with all of the sequence computed in every step.
func (r *runner) greedyWhole(s int, prompt []int32, last int32, n int) ([]int32, error) {
	ids := []int32{last}
	for len(ids) < n {
		r.past[s] = 0
		row, err := r.forward(map[int][]int32{s: slices.Concat(prompt, ids)}, []int{s}, true)
		if err != nil {
			return nil, err
		}
		ids = append(ids, argmax(row))
	}
	return ids, nil
}

// choosesKeys reports whether a graph's rows attend to chosen keys.
func choosesKeys(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		_, ok := n.Op.(graph.TopKeys)
		return ok
	})
}

// forward computes the next tokens of some sequences in one step and returns the logits of every row, or of each
// sequence's last row alone, as rows of Vocab numbers that are valid until the next call.
func (r *runner) forward(tokens map[int][]int32, order []int, lastOnly bool) ([]float32, error) {
	lim := r.prog.Limits()
	b := &backend.Batch{}
	b.Reset(max(1, len(lim.Groups)), lim.SeqPages)
	for _, s := range order {
		first := len(b.Tokens)
		b.AppendSeq(lim, s, r.past[s], tokens[s])
		if lastOnly {
			first = len(b.Tokens) - 1
		}
		for row := first; row < len(b.Tokens); row++ {
			b.LogitsIndices = append(b.LogitsIndices, int32(row))
		}
		r.past[s] += len(tokens[s])
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

// greedy computes n tokens of sequence s, of which last is the first: it is known, and has not been computed yet.
func (r *runner) greedy(s int, last int32, n int) ([]int32, error) {
	ids := []int32{last}
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
