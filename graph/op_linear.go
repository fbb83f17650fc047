package graph

import (
	"fmt"
)

// Linear multiplies every row by a weight, out features × in features, and adds the bias if there is one.
type Linear struct {
	simple
	To      Type // of the result
	ActType Type // dtype that activations may be multiplied in: BF16, Q8 (many rows, of matrices that are decoded), or F32, which leaves them as they are
}

// Name implements Op.
func (Linear) Name() string { return "Linear" }

// Attrs implements Op.
func (o Linear) Attrs() string {
	if o.ActType == F32 {
		return ""
	}
	return "activations in " + o.ActType.String()
}

// Infer implements Op: x [rows, in], w [out, in], bias? [1, out] → [rows, out]. x may be quantised: in Q8 for w in any block format, in F8 or
// I8 for w in FP8 or INT8. With a shard of the columns of w (row-parallel, Shoeybi et al., arXiv:1909.08053) the result is partial.
func (o Linear) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 1, 2); err != nil {
		return nil, err
	}
	x, w := n.In[0], n.Weights[0]
	if x.Cache != nil {
		return nil, fmt.Errorf("%s is a cache and a matrix is wanted", x.Name)
	}
	if (x.Type == F8 || x.Type == I8) && x.Type.Format() != w.Format {
		return nil, fmt.Errorf("%s is %s, which weight %s in %s is not multiplied with", x.Name, x.Type, w.Name, w.Format)
	}
	if x.Axis.Shards != w.In.Shards {
		return nil, fmt.Errorf("%s is [%s, %s] and weight %s takes %s: their columns are not divided over devices alike", x.Name, x.Rows, x.Axis, w.Name, w.In)
	}
	if x.Axis.Len() != w.In.Len() {
		return nil, fmt.Errorf("%s has rows of %d and weight %s takes %d", x.Name, x.Axis.Len(), w.Name, w.In.Len())
	}
	if len(n.Weights) == 2 {
		if err := vector(n.Weights[1], w.Out.Len()); err != nil {
			return nil, err
		}
	}
	return []Value{{Rows: x.Rows, Axis: w.Out, Type: o.To, Partial: w.In.Shards > 0}}, nil
}

// Work implements Op.
func (Linear) Work(n *Node, s *Step) Work {
	rows, w := int64(s.Rows(n.In[0].Rows)), n.Weights[0]
	flops := 2 * rows * int64(w.Out.Len()) * int64(w.In.Len())
	if len(n.Weights) == 2 {
		flops += rows * int64(w.Out.Len())
	}
	return traffic(n, s, flops)
}

// Linear adds x × wᵀ + bias; bias may be nil.
func (b *Builder) Linear(name string, x *Value, w, bias *Weight) *Value {
	ws := []*Weight{w}
	if bias != nil {
		ws = append(ws, bias)
	}
	return b.Emit(name, Linear{To: b.act}, []*Value{x}, ws...)[0]
}
