package graph

import (
	"errors"
	"fmt"
)

// GaussianTopK keeps of each row what exceeds a threshold, and by how much: max(0, x - mean - Deviations × standard deviation). Of numbers
// that are distributed normally about the same share exceeds it in every row (Gemma 3n's sparse feed-forward blocks; You et al.,
// arXiv:2506.06644).
type GaussianTopK struct {
	simple
	Deviations float64
	Of         int // a row is a shard of one of so many numbers, whose sum and squares' sum are a second input (see RowSums); 0: it is whole
}

// Name implements Op.
func (GaussianTopK) Name() string { return "GaussianTopK" }

// Attrs implements Op.
func (o GaussianTopK) Attrs() string {
	s := fmt.Sprintf("above %.6g deviations", o.Deviations)
	if o.Of > 0 {
		s += fmt.Sprintf(", of rows of %d", o.Of)
	}
	return s
}

// Infer implements Op: [rows, axis] → [rows, axis]; of shards x, sums [rows, 2] f32.
func (o GaussianTopK) Infer(n *Node) ([]Value, error) {
	if o.Of > 0 {
		if err := arity(n, 2, 0, 0); err != nil {
			return nil, err
		}
		return []Value{like(n.In[0])}, errors.Join(matrix(n.In[0]), sumsOf(n.In[1], n.In[0], 2))
	}
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	if err := matrix(n.In[0]); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, whole(n.In[0])
}

// Work implements Op: sum; difference, square and sum; difference and maximum for each number; two means, root, product and sum. Of shards
// difference and maximum for each number; two means, the mean's square, their difference, root, product and sum.
func (o GaussianTopK) Work(n *Node, s *Step) Work {
	if o.Of > 0 {
		return traffic(n, s, int64(s.Rows(n.In[0].Rows))*int64(2*n.In[0].Axis.Len()+7))
	}
	return traffic(n, s, int64(s.Rows(n.In[0].Rows))*int64(6*n.In[0].Axis.Len()+5))
}

// GaussianTopK adds the threshold at so many standard deviations above the mean of each row.
func (b *Builder) GaussianTopK(name string, x *Value, deviations float64) *Value {
	return b.Emit(name, GaussianTopK{Deviations: deviations}, []*Value{x})[0]
}
