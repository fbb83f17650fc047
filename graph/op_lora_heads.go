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
	if w.Slots == nil || w.Slots.Of.Matrices() != x.Axis.Count || y.Axis.Count != x.Axis.Count || x.Axis.Size-w.In.Len() != y.Axis.Size-w.Out.Len() || x.Rows != y.Rows {
		return nil, fmt.Errorf("%s is [%s, %s], %s is [%s, %s], and weight %s has no slots for such heads", x.Name, x.Rows, x.Axis, y.Name, y.Rows, y.Axis, w.Name)
	}
	return []Value{like(y)}, nil
}

// Work implements Op: nothing is counted, since few adapters change these matrices.
func (LoRAHeads) Work(*Node, *Step) Work { return Work{} }

// Overwrites implements InPlace.
func (LoRAHeads) Overwrites(int) (in int) { return 1 }
