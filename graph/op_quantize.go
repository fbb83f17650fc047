package graph

import "fmt"

// Quantize rounds every row to integers or floats of few bits, so that matrices in such numbers can be multiplied with it faster: to Q8,
// whose blocks of 32 have a scale each, or to I8 or F8, with one scale for the row. A scale is the largest magnitude / 127 (F8: / 448),
// and numbers are rounded to the nearest, ties to even.
type Quantize struct {
	simple
	To    Type    // Q8, I8 or F8
	Below float64 // of I8: numbers of this magnitude and more are left out, of the scale too, for AddOutliers; 0: none is
}

// scaledBlock is what rows of I8 and F8 divide into: the 16 bytes that a GPU's threads load at a time.
const scaledBlock = 16

// Name implements Op.
func (Quantize) Name() string { return "Quantize" }

// Attrs implements Op: the type of what it makes says all but what is left out.
func (o Quantize) Attrs() string {
	if o.Below == 0 {
		return ""
	}
	return fmt.Sprintf("below %.6g", o.Below)
}

// Infer implements Op: [rows, axis] f32 → [rows, axis] q8, or f32 or bf16 → i8 or f8. The axis divides into blocks.
func (o Quantize) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	x, block := n.In[0], scaledBlock
	if o.Below != 0 && (o.To != I8 || !(o.Below > 0)) {
		return nil, fmt.Errorf("large numbers, from %g on, are left out of rows in %s; only those in i8 do, from a number above 0 on", o.Below, o.To)
	}
	switch {
	case o.To == Q8:
		block = Q8Block
		if x.Cache != nil || x.Type != F32 {
			return nil, fmt.Errorf("%s is %s and f32 is wanted", x.Name, x.Type)
		}
	case o.To != I8 && o.To != F8:
		return nil, fmt.Errorf("rows cannot be quantised to %s; q8, i8 and f8 are possible", o.To)
	default:
		if err := matrix(x); err != nil {
			return nil, err
		}
	}
	if x.Axis.Len()%block != 0 {
		return nil, fmt.Errorf("rows of %d do not divide into blocks of %d", x.Axis.Len(), block)
	}
	return []Value{{Rows: x.Rows, Axis: x.Axis, Type: o.To}}, nil
}

// Work implements Op: magnitude and maximum, then scaling and rounding of each number; two divisions a scale.
func (o Quantize) Work(n *Node, s *Step) Work {
	scales := int64(s.Rows(n.In[0].Rows))
	if o.To == Q8 {
		scales = numbers(n, s) / Q8Block
	}
	each := int64(4)
	if o.Below > 0 {
		each++ // compared
	}
	return traffic(n, s, each*numbers(n, s)+2*scales)
}
