package graph

import "fmt"

// HeadLinear multiplies each head of a row by a matrix of its own. The last Rest numbers of a head are not multiplied and go on behind the
// result. It brings queries into the space of a latent cache, and its values out of it (multi-head latent attention with absorbed
// matrices, arXiv:2405.04434).
type HeadLinear struct {
	simple
	Rest int
	To   Type // of the result
}

// Name implements Op.
func (HeadLinear) Name() string { return "HeadLinear" }

// Attrs implements Op.
func (o HeadLinear) Attrs() string {
	if o.Rest == 0 {
		return ""
	}
	return fmt.Sprintf("all but the last %d", o.Rest)
}

// Infer implements Op: x [rows, heads × (in + Rest)], w [heads, out, in] → [rows, heads × (out + Rest)].
func (o HeadLinear) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 1, 1); err != nil {
		return nil, err
	}
	x, w := n.In[0], n.Weights[0]
	if err := matrix(x); err != nil {
		return nil, err
	}
	if w.Matrices() != x.Axis.Count || w.In.Len()+o.Rest != x.Axis.Size || o.Rest < 0 || w.Stack.Shards != x.Axis.Shards {
		return nil, fmt.Errorf("%s has %s and weight %s is %d × %d × %d, for heads with %d more numbers", x.Name, x.Axis, w.Name, w.Matrices(), w.Out.Len(), w.In.Len(), o.Rest)
	}
	return []Value{{Rows: x.Rows, Axis: Axis{Name: x.Axis.Name, Count: x.Axis.Count, Size: w.Out.Len() + o.Rest, Shards: x.Axis.Shards}, Type: o.To}}, nil
}

// Work implements Op.
func (HeadLinear) Work(n *Node, s *Step) Work {
	w := n.Weights[0]
	return traffic(n, s, 2*int64(s.Rows(n.In[0].Rows))*int64(w.Matrices())*int64(w.Out.Len())*int64(w.In.Len()))
}

// HeadLinear adds the products; the last rest numbers of each head go on as they are.
func (b *Builder) HeadLinear(name string, x *Value, w *Weight, rest int) *Value {
	return b.Emit(name, HeadLinear{Rest: rest, To: b.act}, []*Value{x}, w)[0]
}
