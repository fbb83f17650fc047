package testkit

import (
	"math"
	"math/rand/v2"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
)

// Steps lists, for each step, how many new tokens each sequence computes; 0 leaves a sequence out.
type Steps [][]int

// Sequence lays out the steps as batches: token ids at random below vocab, pages handed out in a scrambled order, another
// for each of lim.Groups, and logits wanted of every sequence's last row and, with all, of every row.
func Sequence(steps Steps, lim backend.Limits, vocab int, all bool, seed uint64) []*backend.Batch {
	rnd := rand.New(rand.NewPCG(seed, 2))
	orders := [][]int{rnd.Perm(lim.Pages)}
	for len(orders) < len(lim.Groups) {
		orders = append(orders, rnd.Perm(lim.Pages))
	}
	past := make([]int, len(steps[0]))
	var batches []*backend.Batch
	for _, step := range steps {
		b := &backend.Batch{}
		b.Reset(len(orders), lim.SeqPages)
		for s, n := range step {
			if n == 0 {
				continue
			}
			for i := range n {
				p := past[s] + i
				b.Tokens = append(b.Tokens, int32(rnd.IntN(vocab)))
				b.Positions = append(b.Positions, int32(p))
				if all || i == n-1 {
					b.LogitsIndices = append(b.LogitsIndices, int32(len(b.Tokens)-1))
				}
			}
			for g, order := range orders {
				table := b.Table(g)
				if len(lim.Groups) > 0 && lim.Groups[g].Recurrent {
					table.States = append(table.States, int32(order[s]))
					continue
				}
				for p := past[s]; p < past[s]+n; p++ {
					table.Slots = append(table.Slots, int32(order[s*lim.SeqPages+p/lim.PageSize]*lim.PageSize+p%lim.PageSize))
				}
				for p := range lim.SeqPages {
					table.Pages = append(table.Pages, int32(order[s*lim.SeqPages+p]))
				}
			}
			past[s] += n
			b.QStart = append(b.QStart, int32(len(b.Tokens)))
			b.KVLen = append(b.KVLen, int32(past[s]))
			b.RopeLen = append(b.RopeLen, int32(past[s]))
		}
		batches = append(batches, b)
	}
	return batches
}

// LimitsFor is just room enough for the steps.
func LimitsFor(steps Steps, pageSize int) backend.Limits {
	lim := backend.Limits{Seqs: len(steps[0]), PageSize: pageSize}
	longest := 0
	for s := range steps[0] {
		total := 0
		for _, step := range steps {
			total += step[s]
		}
		longest = max(longest, total)
	}
	for _, step := range steps {
		tokens := 0
		for _, n := range step {
			tokens += n
		}
		lim.Tokens = max(lim.Tokens, tokens)
	}
	lim.Logits = lim.Tokens
	lim.SeqPages = (longest + pageSize - 1) / pageSize
	lim.Pages = lim.Seqs * lim.SeqPages
	return lim
}

// Outputs runs the batches on a device and returns the output's rows of every step.
func Outputs(g *graph.Graph, dev backend.Device, w compile.Tensors, lim backend.Limits, batches []*backend.Batch) ([][]float32, error) {
	return outputs(g, dev, w, lim, batches, func(*compile.Program) error { return nil })
}

// outputs is Outputs, with something done before every step.
func outputs(g *graph.Graph, dev backend.Device, w compile.Tensors, lim backend.Limits, batches []*backend.Batch, before func(*compile.Program) error) ([][]float32, error) {
	for _, x := range g.Weights {
		if x.Slots != nil {
			lim.Adapters = x.Slots.Count
		}
	}
	prog, err := compile.Compile(g, dev, w, lim)
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	if err := fillSlots(prog); err != nil {
		return nil, err
	}
	var all [][]float32
	for _, b := range batches {
		if err := b.Check(lim, math.MaxInt32); err != nil {
			return nil, err
		}
		if err := before(prog); err != nil {
			return nil, err
		}
		if err := prog.Run(b); err != nil {
			return nil, err
		}
		rows := b.Rows(g.Output.Rows)
		out := make([]float32, rows*g.Output.Axis.Len())
		if err := prog.Logits(out, 0, rows); err != nil {
			return nil, err
		}
		all = append(all, out)
	}
	return all, nil
}

// WorstError is the largest difference over the largest number wanted; infinite when anything is not a number.
func WorstError(got, want []float32) float64 {
	var top, worst float64
	for i := range want {
		top = math.Max(top, math.Abs(float64(want[i])))
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		worst = math.Max(worst, d)
	}
	if top == 0 {
		return worst
	}
	return worst / top
}
