package graph

import "fmt"

// RoundRows rounds every row to the numbers that a product in 8 bits reads, and keeps them in floats, for devices that multiply such weights in floats: to
// whole multiples, -127 to 127, of the largest magnitude / 127. With a threshold, numbers of that magnitude or more stay, rounded to 16 bits, and have no part
// in the row's scale: what the product computes then is LLM.int8's (Dettmers et al., arXiv:2208.07339), but that each number is judged by itself and not a
// column of the step, so that no row depends on those beside it.
type RoundRows struct {
	simple
	Threshold float64 // 0: no number stays
}

// LeastRounded is the least of the largest magnitudes of rows that are not rounded to zeros: 127 divided by less may be more than a float can be.
const LeastRounded = 0x1p-120

// Name implements Op.
func (RoundRows) Name() string { return "RoundRows" }

// Attrs implements Op.
func (o RoundRows) Attrs() string {
	if o.Threshold == 0 {
		return "to i8"
	}
	return fmt.Sprintf("to i8, below %.6g", o.Threshold)
}

// Infer implements Op: x [rows, axis] f32 → [rows, axis] f32.
func (RoundRows) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	x := n.In[0]
	if err := matrix(x); err != nil {
		return nil, err
	}
	if x.Type != F32 {
		return nil, fmt.Errorf("%s is %s and f32 is wanted", x.Name, x.Type)
	}
	return []Value{like(x)}, nil
}

// Work implements Op: magnitude, comparison and maximum, then scaling, rounding and scaling back for each number; two divisions a row.
func (RoundRows) Work(n *Node, s *Step) Work {
	return traffic(n, s, 6*numbers(n, s)+2*int64(s.Rows(n.In[0].Rows)))
}
