package graph

import "fmt"

// AddNorm is Add and the RMSNorm of its sum in one pass over the rows: the residual stream is read and written once
// where the two ops read it twice.
type AddNorm struct{ Eps float64 }

// Name implements Op.
func (AddNorm) Name() string { return "AddNorm" }

// Attrs implements Op.
func (o AddNorm) Attrs() string { return fmt.Sprintf("eps %.4g", o.Eps) }

// Infer implements Op: x [rows, axis], y [rows, axis], w [1, axis] → sum [rows, axis], norm [rows, axis].
func (o AddNorm) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 1, 1); err != nil {
		return nil, err
	}
	if err := alike(n.In[0], n.In[1]); err != nil {
		return nil, err
	}
	if err := whole(n.In[0]); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0]), like(n.In[0])}, vector(n.Weights[0], n.In[0].Axis.Len())
}

// Work implements Op: one addition more a number than RMSNorm.
func (o AddNorm) Work(n *Node, s *Step) Work {
	x := n.In[0]
	return traffic(n, s, int64(s.Rows(x.Rows))*int64(5*x.Axis.Len()+4))
}

// Unfused implements Op.
func (o AddNorm) Unfused(b *Builder, n *Node, in []*Value) []*Value {
	sum := b.Add(n.Out[0].Name, in[0], in[1])
	return []*Value{sum, b.RMSNorm(n.Out[1].Name, sum, n.Weights[0], o.Eps)}
}
