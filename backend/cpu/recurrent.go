package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// Recurrent layers go through a sequence token by token, so that what a sequence gets depends neither on how its prompt is cut nor on what
// is beside it, to the last bit. Workers divide channels, or heads of sequences.

// stateOf is the states of a recurrent node, whose last input they are: [states][size].
type stateOf struct {
	all         []float32
	group, size int
}

func newStateOf(n *graph.Node, a backend.Args) stateOf {
	last := len(n.In) - 1
	c := n.In[last].Cache
	return stateOf{floats(a.In[last]), c.Group, c.State.Len()}
}

// of is the state of sequence s.
func (t *stateOf) of(b *backend.Batch, s int) []float32 {
	at := int(b.Table(t.group).States[s]) * t.size
	return t.all[at : at+t.size]
}

// heads calls each with the heads that are a worker's of the step's sequences: the head, its state, which is zero where the step computes the
// sequence's first token, and the sequence's rows, from first on and before last.
func (t *stateOf) heads(w *worker, b *backend.Batch, heads int, each func(h int, state []float32, first, last int)) {
	size := t.size / heads
	from, to := w.share(b.Seqs()*heads, 1)
	for i := from; i < to; i++ {
		s, h := i/heads, i%heads
		state := t.of(b, s)[h*size : (h+1)*size]
		if b.Past(s) == 0 {
			clear(state)
		}
		each(h, state, int(b.QStart[s]), int(b.QStart[s+1]))
	}
}

// decoded is a weight's numbers, row by row.
func decoded(w backend.Weight) []float32 {
	if v, ok := w.(vector); ok {
		return v
	}
	return w.(*matrix).Floats()
}

// byColumn is rows × cols numbers as cols × rows.
func byColumn(x []float32, cols int) []float32 {
	rows := len(x) / cols
	y := make([]float32, len(x))
	for i, v := range x {
		y[i%cols*rows+i/cols] = v
	}
	return y
}

// bindCausalConv gives every worker its channels of all tokens.
func bindCausalConv(v vec.Ops, n *graph.Node, a backend.Args) body {
	in, out, channels, width := floats(a.In[0]), floats(a.Out[0]), n.In[0].Axis.Len(), n.Weights[0].In.Len()
	taps := byColumn(decoded(a.Weights[0]), width) // [width][channels]
	state, silu := newStateOf(n, a), n.Op.(graph.CausalConv).Silu
	bias := make(vector, channels)
	if len(a.Weights) == 2 {
		bias = a.Weights[1].(vector)
	}
	return func(w *worker, b *backend.Batch) {
		from, to := w.columns(channels)
		if from >= to {
			return
		}
		for s := range b.Seqs() {
			past := state.of(b, s)
			if b.Past(s) == 0 {
				for i := range width - 1 {
					clear(past[i*channels+from : i*channels+to])
				}
			}
			first, last := int(b.QStart[s]), int(b.QStart[s+1])
			// input is the row of token first+t, or of one before the step.
			input := func(t int) []float32 {
				if t < 0 {
					return past[(width-1+t)*channels+from:][:to-from]
				}
				return in[(first+t)*channels+from:][:to-from]
			}
			for t := range last - first {
				y := out[(first+t)*channels+from:][:to-from]
				copy(y, bias[from:to])
				for i := range width {
					v.AddProduct(y, input(t-width+1+i), taps[i*channels+from:][:to-from])
				}
				if silu {
					v.Act(vec.Silu, y, y)
				}
			}
			for i := range width - 1 { // the oldest first: what a row is replaced by is newer
				copy(past[i*channels+from:][:to-from], input(last-first-width+1+i))
			}
		}
	}
}
