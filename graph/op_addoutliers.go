package graph

import "fmt"

// AddOutliers adds to the product of rows in I8, in whose numbers those of a magnitude from Threshold on are missing (Quantize.Below), what these are times the
// matrix, in 16 bits: together they are LLM.int8's product (Dettmers et al., arXiv:2208.07339), but that each number is judged by itself and not a column of
// the step, so that no row depends on those beside it.
type AddOutliers struct {
	simple
	Threshold float64 // above 0
}

// Name implements Op.
func (AddOutliers) Name() string { return "AddOutliers" }

// Attrs implements Op.
func (o AddOutliers) Attrs() string { return fmt.Sprintf("from %.6g", o.Threshold) }

// Infer implements Op: y [rows, out], x [rows, in], both f32 or bf16, w [out, in] → y's.
func (o AddOutliers) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 1, 1); err != nil {
		return nil, err
	}
	y, x, w := n.In[0], n.In[1], n.Weights[0]
	for _, v := range n.In {
		if err := matrix(v); err != nil {
			return nil, err
		}
		if v.Type != y.Type || v.Type != BF16 && v.Type != F32 {
			return nil, fmt.Errorf("%s is %s and %s is %s; both are in bf16 or f32", y.Name, y.Type, x.Name, x.Type)
		}
	}
	switch {
	case !(o.Threshold > 0):
		return nil, fmt.Errorf("numbers from %g on are said to be large; the threshold is above 0", o.Threshold)
	case y.Rows != x.Rows || w.Out.Len() != y.Axis.Len() || w.In.Len() != x.Axis.Len():
		return nil, fmt.Errorf("%s [%s, %d] is no product of %s [%s, %d] and %s [%d, %d]", y.Name, y.Rows, y.Axis.Len(), x.Name, x.Rows, x.Axis.Len(), w.Name, w.Out.Len(), w.In.Len())
	}
	return []Value{like(y)}, nil
}

// Work implements Op: a magnitude and a comparison for each number of x. How many are large, and so how much of the matrix is read, only the rows say.
func (AddOutliers) Work(n *Node, s *Step) Work {
	w := traffic(n, s, 2*int64(s.Rows(n.In[1].Rows))*int64(n.In[1].Axis.Len()))
	w.WeightBytes = 0
	return w
}
