package graph

import "fmt"

// GaussianTopK keeps of each row what exceeds a threshold, and by how much: max(0, x - mean - Deviations × standard deviation). Of numbers
// that are distributed normally about the same share exceeds it in every row (Gemma 3n's sparse feed-forward blocks; You et al.,
// arXiv:2506.06644).
type GaussianTopK struct {
	simple
	Deviations float64
}

// Name implements Op.
func (GaussianTopK) Name() string { return "GaussianTopK" }

// Attrs implements Op.
func (o GaussianTopK) Attrs() string { return fmt.Sprintf("above %.6g deviations", o.Deviations) }

// Infer implements Op: [rows, axis] → [rows, axis].
func (o GaussianTopK) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	if err := matrix(n.In[0]); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, whole(n.In[0])
}

// Work implements Op: sum; difference, square and sum; difference and maximum for each number; two means, root, product and sum.
func (o GaussianTopK) Work(n *Node, s *Step) Work {
	return traffic(n, s, int64(s.Rows(n.In[0].Rows))*int64(6*n.In[0].Axis.Len()+5))
}

// GaussianTopK adds the threshold at so many standard deviations above the mean of each row.
func (b *Builder) GaussianTopK(name string, x *Value, deviations float64) *Value {
	return b.Emit(name, GaussianTopK{Deviations: deviations}, []*Value{x})[0]
}
