package quantize

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// A model's residual stream is turned by an orthogonal matrix (QuaRot, Ashkboos et al., arXiv:2404.00456; of its rotations those that no step has to
// compute): the matrices that write to it turn their results, those that read it turn them back, norms' weights being folded into these first. Values
// are turned head by head, between their matrix and that behind the attention. The model computes the same, and no number of the stream, or column of
// a matrix, is much larger than the others.

// weightTurn is what is done to a weight: columns are multiplied by a norm's weights, and then columns, or rows, are turned.
type weightTurn struct {
	weight  *graph.Weight
	gain    *graph.Weight // nil: none
	in, out *hadamard     // of columns and rows; nil: they stay
}

// rotation is what is done to a model's weights, by blocks; the last is what comes behind the layers.
type rotation struct {
	turns [][]*weightTurn
	norms [][]*graph.Weight // whose weights become 1
}

// part is what a value is of the residual stream.
type part uint8

const (
	outside    part = iota
	stream          // turned
	normalised      // turned, and read by matrices that take over the norm's weights
)

// weightAt is a weight as a block reads it: a table of embeddings may be read twice.
type weightAt struct {
	weight *graph.Weight
	block  int
}

// turning finds out how the residual stream of a graph is turned.
type turning struct {
	q     *job
	parts map[*graph.Value]part
	norm  map[*graph.Value]*graph.Node // of normalised values
	by    *hadamard
	all   map[weightAt]*weightTurn
	r     *rotation
}

// rotationOf finds how the model can be turned. An error names the node that does not let it.
func (q *job) rotationOf() (*rotation, error) {
	last := len(q.blocks)
	t := &turning{q: q, parts: map[*graph.Value]part{}, norm: map[*graph.Value]*graph.Node{}, all: map[weightAt]*weightTurn{},
		r: &rotation{turns: make([][]*weightTurn, last+1), norms: make([][]*graph.Weight, last+1)}}
	if q.g.Hidden == nil || q.g.Hidden.From == nil {
		return nil, fmt.Errorf("quantize: the graph of %s has no hidden states behind its layers, so that it is not known what to rotate", q.dir.Name)
	}
	if q.dir.Model.MTPLayers() > 0 {
		return nil, fmt.Errorf("quantize: %s has layers that predict further tokens (MTP), which read the hidden states; it cannot be rotated", q.dir.Name)
	}
	var err error
	if t.by, err = newHadamard(q.g.Hidden.Axis.Len()); err != nil {
		return nil, fmt.Errorf("quantize: the residual stream: %w", err)
	}
	t.spread()
	for _, n := range q.g.Nodes {
		if err := t.node(n); err != nil {
			return nil, err
		}
	}
	return t.r, t.values()
}

// spread finds the values of the residual stream: those before the last norm, and what is added to or selected from them.
func (t *turning) spread() {
	if last := t.q.g.Hidden.From; len(last.In) > 0 {
		t.parts[last.In[0]] = stream
	}
	for more := true; more; {
		more = false
		mark := func(p part, values ...*graph.Value) {
			for _, v := range values {
				if t.parts[v] == outside {
					t.parts[v], more = p, true
				}
			}
		}
		for _, n := range t.q.g.Nodes {
			switch n.Op.(type) {
			case graph.Add:
				for _, v := range []*graph.Value{n.In[0], n.In[1], n.Out[0]} {
					if t.parts[v] == stream {
						mark(stream, n.In[0], n.In[1], n.Out[0])
					}
				}
			case graph.Scale, graph.GateRows:
				if t.parts[n.In[0]] == stream || t.parts[n.Out[0]] == stream {
					mark(stream, n.In[0], n.Out[0])
				}
			case graph.SelectRows:
				if p := max(t.parts[n.In[0]], t.parts[n.Out[0]]); p != outside {
					mark(p, n.In[0], n.Out[0])
					if t.norm[n.Out[0]] == nil {
						t.norm[n.Out[0]] = t.norm[n.In[0]]
					}
				}
			case graph.RMSNorm:
				if t.parts[n.In[0]] == stream {
					mark(normalised, n.Out[0])
					t.norm[n.Out[0]] = n
				}
			}
		}
	}
}

// refuse says which node does not let the stream be turned.
func (t *turning) refuse(n *graph.Node, why string) error {
	return fmt.Errorf("quantize: %s cannot be rotated: %s (%s) %s", t.q.dir.Name, n.Out[0].Name, n.Op.Name(), why)
}

// blockOf is the block that a node is in.
func (t *turning) blockOf(n *graph.Node) int {
	if n.Layer != graph.NoLayer {
		return n.Layer + 1
	}
	if len(n.In) == 0 {
		return 0
	}
	return len(t.q.blocks)
}

// of is what is done to a weight that a node reads.
func (t *turning) of(n *graph.Node, w *graph.Weight) *weightTurn {
	at := weightAt{w, t.blockOf(n)}
	if t.all[at] == nil {
		t.all[at] = &weightTurn{weight: w}
		t.r.turns[at.block] = append(t.r.turns[at.block], t.all[at])
	}
	return t.all[at]
}

// node notes what a node's weights become.
func (t *turning) node(n *graph.Node) error {
	into, out := outside, t.parts[n.Out[0]]
	for _, v := range n.In {
		into = max(into, t.parts[v])
	}
	if into == outside && out == outside {
		return nil
	}
	switch o := n.Op.(type) {
	case graph.Embed:
		return t.reads(n, n.Weights[0], nil)
	case graph.Add, graph.Scale, graph.SelectRows:
		if out == stream && into == normalised {
			return t.refuse(n, "takes normalised numbers into the residual stream")
		}
		return nil
	case graph.GateRows:
		if t.parts[n.In[0]] != stream || t.parts[n.In[1]] != outside {
			return t.refuse(n, "has gates of the residual stream")
		}
		return nil
	case graph.RMSNorm:
		if into != stream || out != normalised {
			return t.refuse(n, "multiplies numbers of the residual stream by weights of their own, with no matrix behind that could take them over")
		}
		if !o.WholeRows() || !foldable(n.Weights[0]) {
			return t.refuse(n, "has weights that cannot be folded into the matrices behind it")
		}
		b := t.blockOf(n)
		t.r.norms[b] = append(t.r.norms[b], n.Weights[0])
		return nil
	case graph.Linear:
		return t.linear(n, into, out)
	case graph.MoE:
		return t.experts(n, out)
	}
	return t.refuse(n, "works on single numbers of the residual stream")
}

// gainOf is the norm whose weights a reader of a value takes over; nil: none.
func (t *turning) gainOf(v *graph.Value) *graph.Weight {
	if n := t.norm[v]; n != nil {
		return n.Weights[0]
	}
	return nil
}

// reads notes that a weight's rows are products with the stream, or of it.
func (t *turning) reads(n *graph.Node, w *graph.Weight, gain *graph.Weight) error {
	if err := t.known(n, w); err != nil {
		return err
	}
	turn := t.of(n, w)
	turn.gain, turn.in = gain, t.by
	return nil
}

// known checks that it is known where a weight's numbers lie.
func (t *turning) known(n *graph.Node, w *graph.Weight) error {
	if _, err := placesOf(w); err != nil || w.Slots != nil {
		return t.refuse(n, fmt.Sprintf("has a weight, %s, that is no rows of a tensor of the file", w.Name))
	}
	return nil
}

// linear notes what a linear layer's weights become.
func (t *turning) linear(n *graph.Node, into, out part) error {
	if into != outside {
		if err := t.reads(n, n.Weights[0], t.gainOf(n.In[0])); err != nil {
			return err
		}
	}
	if out == outside {
		return nil
	}
	return t.writes(n, n.Weights)
}

// writes notes that a matrix's results, and biases added to them, are of the stream.
func (t *turning) writes(n *graph.Node, weights []*graph.Weight) error {
	if err := t.known(n, weights[0]); err != nil {
		return err
	}
	t.of(n, weights[0]).out = t.by
	for _, b := range weights[1:] {
		if err := t.known(n, b); err != nil {
			return err
		}
		t.of(n, b).in = t.by // a bias is a row
	}
	return nil
}

// experts notes what experts' weights become.
func (t *turning) experts(n *graph.Node, out part) error {
	if t.parts[n.In[1]] != outside || out != stream || t.parts[n.In[0]] == outside {
		return t.refuse(n, "reads or writes something else than the residual stream")
	}
	for _, w := range []*graph.Weight{n.Weights[graph.ExpertGate], n.Weights[graph.ExpertUp]} {
		if err := t.reads(n, w, t.gainOf(n.In[0])); err != nil {
			return err
		}
	}
	down := []*graph.Weight{n.Weights[graph.ExpertDown]}
	if at := graph.ExpertMatrices + graph.ExpertDown; at < len(n.Weights) {
		down = append(down, n.Weights[at])
	}
	return t.writes(n, down)
}

// values notes what becomes of the matrices of values, and those behind attention, where nothing is between them but attention.
func (t *turning) values() error {
	for i := range t.q.blocks {
		for k := range t.q.blocks[i].inputs {
			in := &t.q.blocks[i].inputs[k]
			m, ok := t.q.makerOf(in)
			if _, attention := in.value.From.Op.(graph.Attention); !ok || !attention {
				continue
			}
			by, err := newHadamard(m.size)
			if err != nil {
				continue // heads stay as they are
			}
			t.of(m.rows, m.rows.Weights[0]).out = by
			for _, b := range m.rows.Weights[1:] {
				t.of(m.rows, b).in = by
			}
			for _, n := range in.nodes {
				t.of(n, n.Weights[0]).in = by
			}
		}
	}
	return nil
}
