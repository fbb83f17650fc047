package graph

import "fmt"

// RowSums is the sum of the squares of a row's numbers, behind their sum if that is wanted too. Of a shard it is partial: what devices that
// have a part of each row need of the others before they can normalise it (RMSNorm.Of, GaussianTopK.Of). Pass partition adds it.
type RowSums struct {
	simple
	Plain bool // the sum of the numbers comes first
}

// Name implements Op.
func (RowSums) Name() string { return "RowSums" }

// Attrs implements Op.
func (o RowSums) Attrs() string {
	if o.Plain {
		return "of numbers and squares"
	}
	return "of squares"
}

// Infer implements Op: [rows, axis] → [rows, 1 or 2] f32.
func (o RowSums) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	x := n.In[0]
	return []Value{{Rows: x.Rows, Axis: Axis{Name: "sums", Count: o.count(), Size: 1}, Type: F32, Partial: x.Axis.Shards > 0}}, matrix(x)
}

func (o RowSums) count() int {
	if o.Plain {
		return 2
	}
	return 1
}

// Work implements Op: a square and a sum of each number, and a sum of the numbers themselves if that is wanted.
func (o RowSums) Work(n *Node, s *Step) Work {
	return traffic(n, s, numbers(n, s)*int64(1+o.count()))
}

// sumsOf checks that a value is n sums of each row of x.
func sumsOf(v, x *Value, n int) error {
	if err := matrix(v); err != nil {
		return err
	}
	if v.Axis.Len() != n || v.Rows != x.Rows || v.Type != F32 {
		return fmt.Errorf("%s is [%s, %s] %s, and %d sums of the rows of %s are wanted", v.Name, v.Rows, v.Axis, v.Type, n, x.Name)
	}
	return nil
}
