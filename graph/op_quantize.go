package graph

import "fmt"

// Quantize rounds every row to Q8, so that matrices in block formats can be multiplied in integers. The scale of a
// block is its largest magnitude / 127, and numbers are rounded to the nearest, ties to even.
type Quantize struct{ simple }

// Name implements Op.
func (Quantize) Name() string { return "Quantize" }

// Attrs implements Op.
func (Quantize) Attrs() string { return "" }

// Infer implements Op: [rows, axis] f32 → [rows, axis] q8; the axis divides into blocks of Q8Block.
func (Quantize) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	x := n.In[0]
	if x.Cache != nil || x.Type != F32 {
		return nil, fmt.Errorf("%s is %s and f32 is wanted", x.Name, x.Type)
	}
	if x.Axis.Len()%Q8Block != 0 {
		return nil, fmt.Errorf("rows of %d do not divide into blocks of %d", x.Axis.Len(), Q8Block)
	}
	return []Value{{Rows: x.Rows, Axis: x.Axis, Type: Q8}}, nil
}

// Work implements Op: magnitude and maximum, then scaling and rounding of each number; two divisions a block.
func (Quantize) Work(n *Node, s *Step) Work {
	return traffic(n, s, 4*numbers(n, s)+2*numbers(n, s)/Q8Block)
}
