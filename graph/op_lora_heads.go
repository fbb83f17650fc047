package graph

import "fmt"

// LoRAHeads changes the results of a HeadLinear as the adapters of the rows' sequences say, in place like LoRA: each head of a row by a product of its own.
type LoRAHeads struct{ simple }

// Name implements Op.
func (LoRAHeads) Name() string { return "LoRAHeads" }

// Attrs implements Op.
func (LoRAHeads) Attrs() string { return "" }

// Infer implements Op: the HeadLinear's x [rows, heads × (in + rest)] and y [rows, heads × (out + rest)], a weight with slots for [heads, out, in] → y.
func (LoRAHeads) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 1, 1); err != nil {
		return nil, err
	}
	x, y, w := n.In[0], n.In[1], n.Weights[0]
	for _, v := range n.In {
		if err := matrix(v); err != nil {
			return nil, err
		}
	}
	if w.Slots == nil || w.Slots.Of.Matrices() != x.Axis.Count || y.Axis.Count != x.Axis.Count || x.Rows != Tokens || x.Axis.Size-w.In.Len() != y.Axis.Size-w.Out.Len() || y.Rows != Tokens {
		return nil, fmt.Errorf("%s is [%s, %s], %s is [%s, %s], and weight %s has no slots for such heads", x.Name, x.Rows, x.Axis, y.Name, y.Rows, y.Axis, w.Name)
	}
	return []Value{like(y)}, nil
}

// Work implements Op: whole rows of sequences with adapters, and each adapter once.
func (LoRAHeads) Work(n *Node, s *Step) Work {
	x, y, w := n.In[0], n.In[1], n.Weights[0]
	var sum Work
	for i, a := range s.Adapters {
		rows, size := int64(s.Seqs[a.Seq].New-a.Skip), int64(a.Rank)*int64(x.Axis.Count)*int64(w.In.Len()+w.Out.Len())
		sum.FLOPs += 2 * rows * size
		sum.ValueRead += rows * (x.RowBytes() + y.RowBytes())
		sum.ValueWrite += rows * n.Out[0].RowBytes()
		if i == 0 || s.Adapters[i-1].Slot != a.Slot {
			sum.WeightBytes += size * int64(a.Bytes)
		}
	}
	return sum
}

// Overwrites implements InPlace.
func (LoRAHeads) Overwrites(int) (in int) { return 1 }
