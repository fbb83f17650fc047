package graph

import (
	"errors"
	"fmt"
)

// RMSNorm divides each group of a row by its root mean square and multiplies by the weight (Zhang & Sennrich,
// arXiv:1910.07467). With PerGroup the axis's groups (heads) are normalised one by one, with one weight for all.
type RMSNorm struct {
	simple
	Eps      float64
	PerGroup bool
	Groups   int // a row's numbers are normalised in so many groups, each with weights of its own; 0: together
	Of       int // a row is a shard of one of so many numbers, whose squares' sum is a second input (see RowSums); 0: it is whole
}

// WholeRows reports whether a row is normalised as one, by itself.
func (o RMSNorm) WholeRows() bool { return !o.PerGroup && o.Groups == 0 && o.Of == 0 }

// Name implements Op.
func (RMSNorm) Name() string { return "RMSNorm" }

// Attrs implements Op.
func (o RMSNorm) Attrs() string {
	s := fmt.Sprintf("eps %.4g", o.Eps)
	if o.PerGroup {
		s += ", per group"
	}
	if o.Groups > 0 {
		s += fmt.Sprintf(", %d groups", o.Groups)
	}
	if o.Of > 0 {
		s += fmt.Sprintf(", of rows of %d", o.Of)
	}
	return s
}

// Infer implements Op: x [rows, axis], w [1, axis or group] → [rows, axis]; of shards x, sums [rows, 1] f32, w.
func (o RMSNorm) Infer(n *Node) ([]Value, error) {
	inputs := 1
	if o.Of > 0 {
		inputs = 2
	}
	if err := arity(n, inputs, 1, 1); err != nil {
		return nil, err
	}
	if o.Of > 0 {
		if o.PerGroup || o.Groups > 0 {
			return nil, fmt.Errorf("rows of %d cannot be normalised in groups and as shards", o.Of)
		}
		return []Value{like(n.In[0])}, errors.Join(matrix(n.In[0]), sumsOf(n.In[1], n.In[0], 1), vector(n.Weights[0], n.In[0].Axis.Len()))
	}
	if err := matrix(n.In[0]); err != nil {
		return nil, err
	}
	length := n.In[0].Axis.Len()
	if o.Groups > 0 && length%o.Groups != 0 {
		return nil, fmt.Errorf("rows of %d do not divide into %d groups", length, o.Groups)
	}
	if o.PerGroup {
		length = n.In[0].Axis.Size
	} else if o.Groups == 0 { // a shard has whole groups
		if err := whole(n.In[0]); err != nil {
			return nil, err
		}
	}
	if err := vector(n.Weights[0], length); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, nil
}

// Work implements Op: a square and a sum, a scaling and a weight for each number; root and division once a group.
func (o RMSNorm) Work(n *Node, s *Step) Work {
	x := n.In[0]
	groups := max(1, o.Groups)
	if o.PerGroup {
		groups = x.Axis.Count
	}
	perNumber := 4
	if o.Of > 0 { // RowSums has the squares
		perNumber = 2
	}
	return traffic(n, s, int64(s.Rows(x.Rows))*int64(perNumber*x.Axis.Len()+4*groups))
}

// RMSNorm adds the normalisation of whole rows.
func (b *Builder) RMSNorm(name string, x *Value, w *Weight, eps float64) *Value {
	return b.Emit(name, RMSNorm{Eps: eps}, []*Value{x}, w)[0]
}

// GroupRMSNorm adds the normalisation of each group (head) of a row.
func (b *Builder) GroupRMSNorm(name string, x *Value, w *Weight, eps float64) *Value {
	return b.Emit(name, RMSNorm{Eps: eps, PerGroup: true}, []*Value{x}, w)[0]
}

// LayerNorm centres each row, divides by its standard deviation, multiplies by a weight and adds a bias (Ba et al.,
// arXiv:1607.06450).
type LayerNorm struct {
	simple
	Eps float64
}

// Name implements Op.
func (LayerNorm) Name() string { return "LayerNorm" }

// Attrs implements Op.
func (o LayerNorm) Attrs() string { return fmt.Sprintf("eps %.4g", o.Eps) }

// Infer implements Op: x [rows, axis], w [1, axis], bias? [1, axis] → [rows, axis].
func (o LayerNorm) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 1, 2); err != nil {
		return nil, err
	}
	if err := matrix(n.In[0]); err != nil {
		return nil, err
	}
	for _, w := range n.Weights {
		if err := vector(w, n.In[0].Axis.Len()); err != nil {
			return nil, err
		}
	}
	return []Value{like(n.In[0])}, whole(n.In[0])
}

// Work implements Op: mean, centring, square and sum, scaling, weight and bias.
func (o LayerNorm) Work(n *Node, s *Step) Work {
	x := n.In[0]
	return traffic(n, s, int64(s.Rows(x.Rows))*int64((5+len(n.Weights))*x.Axis.Len()+5))
}

// LayerNorm adds the normalisation of rows; bias may be nil.
func (b *Builder) LayerNorm(name string, x *Value, w, bias *Weight, eps float64) *Value {
	ws := []*Weight{w}
	if bias != nil {
		ws = append(ws, bias)
	}
	return b.Emit(name, LayerNorm{Eps: eps}, []*Value{x}, ws...)[0]
}
