package pass

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// Ways to attend where devices divide the rows of steps.
const (
	// Ulysses has each device attend with some heads of all rows, which an all-to-all brings there (Jacobs et al., arXiv:2309.14509): caches are divided by heads.
	Ulysses = "ulysses"
	// Ring has keys and values pass from device to device (Liu et al., arXiv:2310.01889), or queries where they are fewer: caches are divided by tokens.
	Ring = "ring"
)

// ranks is how many devices have different rows of a step: those that divide the rows of every sequence, or replicas with sequences of their own.
func (l Layout) ranks() int { return max(l.Sequence, l.Sources()) }

// OwnSequences reports whether devices with different rows have all rows of a sequence each, and its keys and values.
func (l Layout) OwnSequences() bool { return l.Sources() > 1 }

// PageRanks is over how many devices a page of keys and values is divided.
func (l Layout) PageRanks() int {
	if l.Method == Ring {
		return max(l.Sequence, 1)
	}
	return 1
}

// heads is among how many devices the heads of attention are divided, and piece which of their parts is a rank's.
func (l Layout) heads() int {
	if l.Method == Ulysses {
		return l.Tensor * l.ranks()
	}
	return l.Tensor
}

func (l Layout) piece(at Rank) int {
	if l.Method == Ulysses {
		return at.Tensor*l.ranks() + l.row(at)
	}
	return at.Tensor
}

// expertsOfRows reports whether devices with different rows divide the experts.
func (l Layout) expertsOfRows() bool { return l.ranks() > 1 && l.expert() > l.Tensor }

// checkSequence says why rows of a graph's steps cannot be divided so.
func (l Layout) checkSequence(g *graph.Graph) error {
	if l.Sequence <= 1 {
		return nil
	}
	if l.Data > 1 {
		return fmt.Errorf("the layout %s divides the rows of sequences among %d devices, and has %d replicas with sequences of their own; one of both is possible", l, l.Sequence, l.Data)
	}
	if l.Method != Ulysses && l.Method != Ring {
		return fmt.Errorf("the layout %s divides the rows of steps by the method %q; there are %s and %s", l, l.Method, Ulysses, Ring)
	}
	if l.expert() > l.Tensor && l.expert() != l.Tensor*l.ranks() {
		return fmt.Errorf("the layout %s divides experts among %d devices; where --sp divides rows, up to %d or all %d devices of --tp and --sp can share them", l, l.expert(), l.Tensor, l.Tensor*l.ranks())
	}
	for _, n := range g.Nodes {
		switch n.Op.(type) {
		case graph.SparseAttention, graph.TopKeys:
			return fmt.Errorf("%s chooses among all keys of a sequence, which %d devices that divide rows (--sp) have parts of", n.Out[0].Name, l.ranks())
		case graph.Attention:
			if c := n.In[1].Cache; c.Type == graph.I4 {
				return fmt.Errorf("%s is in int4, and %d devices that divide rows (--sp) would divide its groups of tokens; take --kv-type int8", c.Name, l.ranks())
			}
			if err := l.checkHeads(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fit is the layout as devices have it: with the layers of its stages Balanced, and with a method of dividing rows, if it has none: of those that the graph can have the one whose devices keep fewer bytes of a token or, where those are alike, send fewer for a
// prompt. It says why the graph can have none, as Check does.
func (l Layout) Fit(g *graph.Graph) (Layout, error) {
	l = l.Balanced(g)
	if l.Sequence <= 1 || l.Method != "" {
		return l, l.Check(g)
	}
	var best Layout
	var kept, sent int64
	refused := error(nil)
	for _, method := range []string{Ulysses, Ring} {
		m := l
		m.Method = method
		if refused = m.Check(g); refused != nil {
			continue
		}
		part, err := Partition(g, Options{Layout: m})
		if err != nil {
			return l, err
		}
		k, s := m.bytes(part)
		if best.Method == "" || k < kept || k == kept && s < sent {
			best, kept, sent = m, k, s
		}
	}
	if best.Method == "" {
		return l, refused
	}
	return best, nil
}

// fitted is the prompt for which methods are compared, in tokens.
const fitted = 1 << 16

// bytes is what a device keeps of a page of all devices' tokens, and what it sends for a long prompt.
func (l Layout) bytes(part *graph.Graph) (kept, sent int64) {
	for _, c := range part.Caches {
		kept += c.RowBytes() * int64(l.ranks()/l.PageRanks())
	}
	return kept, part.Work(&graph.Step{Seqs: []graph.Seq{{New: fitted}}, Logits: 1}).LinkBytes
}

// checkHeads says why the heads of a node of attention cannot be divided so.
func (l Layout) checkHeads(n *graph.Node) error {
	pieces, c := l.heads(), n.In[1].Cache
	if l.Method == Ring {
		return nil
	}
	if c.Latent {
		return fmt.Errorf("%s has one head of keys, a latent cache, which %d devices of --sp cannot divide by heads; take --sp-method %s", c.Name, l.ranks(), Ring)
	}
	if n.In[0].Axis.Count%pieces != 0 {
		return fmt.Errorf("%d heads cannot be divided equally among %d devices (--tp %d × --sp %d); take --sp-method %s", n.In[0].Axis.Count, pieces, l.Tensor, l.ranks(), Ring)
	}
	if kv := c.K.Count; kv%pieces != 0 && pieces%kv != 0 {
		return fmt.Errorf("%d key heads cannot be divided among %d devices (--tp %d × --sp %d); take --sp-method %s", kv, pieces, l.Tensor, l.ranks(), Ring)
	}
	return nil
}

// rows brings a node's inputs into the rows that its op computes with on this device: its own or, of what goes on along a sequence,
// those of all.
func (p *partitioner) rows(r *graph.Rewriter, n *graph.Node, in []*graph.Value) []*graph.Value {
	if p.layout.ranks() == 1 {
		return in
	}
	in = slices.Clone(in)
	_, write := n.Op.(graph.KVWrite)
	_, attends := n.Op.(graph.Attention)
	recurrent := slices.ContainsFunc(n.In, func(v *graph.Value) bool { return v.Cache != nil && v.Cache.Recurrent() })
	for i, v := range in {
		switch {
		case v.Cache != nil:
		case recurrent && !p.layout.OwnSequences():
			in[i] = p.all(r, n, v)
		case (write || attends) && p.layout.Method == Ulysses:
			in[i] = p.toHeads(r, n, n.In[i], v)
		default:
			in[i] = p.own(r, n, v)
		}
	}
	return in
}

// all is the rows of all devices, once.
func (p *partitioner) all(r *graph.Rewriter, n *graph.Node, v *graph.Value) *graph.Value {
	if v.Rows != graph.Tokens {
		return v
	}
	return p.once(v, func() *graph.Value {
		return r.Add(n.At, v.Name+".all", graph.GatherRows{Ranks: p.layout.ranks()}, []*graph.Value{v}, nil)[0]
	})
}

// own is a device's own rows, once.
func (p *partitioner) own(r *graph.Rewriter, n *graph.Node, v *graph.Value) *graph.Value {
	if v.Rows != graph.AllTokens || n.Out[0].Cache == nil && n.Out[0].Rows == graph.Logits {
		return v
	}
	return p.once(v, func() *graph.Value {
		return r.Add(n.At, v.Name+".own", graph.OwnRows{Ranks: p.layout.ranks()}, []*graph.Value{v}, nil)[0]
	})
}

// toHeads is a device's heads of all rows of a value, which was one of the whole graph.
func (p *partitioner) toHeads(r *graph.Rewriter, n *graph.Node, whole, v *graph.Value) *graph.Value {
	v = p.own(r, n, v)
	axis := p.units.shard(whole.Axis, p.layout.heads(), p.layout.piece(p.rank))
	return p.once(v, func() *graph.Value {
		return r.Add(n.At, v.Name+".heads", graph.ToHeads{Ranks: p.layout.ranks(), Axis: axis}, []*graph.Value{v}, nil)[0]
	})
}

// once makes a value's other rows when they are first asked for.
func (p *partitioner) once(v *graph.Value, other func() *graph.Value) *graph.Value {
	if p.others[v] == nil {
		p.others[v] = other()
	}
	return p.others[v]
}

// attention is the op of a node of attention on this device.
func (p *partitioner) attention(op graph.Op) graph.Op {
	if o, ok := op.(graph.Attention); ok && p.layout.Method == Ring {
		return graph.RingAttention{Attention: o, Ranks: p.layout.ranks()}
	}
	return op
}

// ownRows brings a node's result back into rows of its device, where others look for it there.
func (p *partitioner) ownRows(r *graph.Rewriter, n *graph.Node, out []*graph.Value) []*graph.Value {
	ranks := p.layout.ranks()
	if ranks == 1 || out[0].Cache != nil {
		return out
	}
	if _, attends := n.Op.(graph.Attention); attends && p.layout.Method == Ulysses {
		rename(out[0], n.Out[0], ".heads")
		axis := p.units.shard(n.Out[0].Axis, p.layout.Tensor, p.rank.Tensor)
		out = r.Add(n.At, n.Out[0].Name, graph.FromHeads{Ranks: ranks, Axis: axis}, out, nil)
	}
	if n.Out[0] == p.graph.Hidden && out[0].Rows == graph.Tokens { // it is read where the first device has it
		rename(out[0], n.Out[0], ".rows")
		out = r.Add(n.At, n.Out[0].Name, graph.GatherRows{Ranks: ranks}, out, nil)
	}
	return out
}

// selected adds the selection of rows whose logits are wanted: the first device has them, and what is made of them.
func (p *partitioner) selected(r *graph.Rewriter, n *graph.Node) bool {
	if p.layout.ranks() == 1 || n.Out[0].Cache != nil || n.Out[0].Rows != graph.Logits {
		return false
	}
	_, selects := n.Op.(graph.SelectRows)
	if !selects {
		return p.layout.row(p.rank) > 0
	}
	in := r.Of(n.In)
	out := in // which all devices have of the hidden states of all tokens
	switch {
	case in[0].Rows == graph.Tokens:
		out = r.Add(n.At, n.Out[0].Name, graph.GatherSelected{Ranks: p.layout.ranks()}, in, nil)
		r.Replace(n.Out, out)
	case p.layout.row(p.rank) == 0:
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, n.Op, in, nil))
	}
	if p.layout.row(p.rank) > 0 {
		r.SetOutput(out[0])
	}
	return true
}
