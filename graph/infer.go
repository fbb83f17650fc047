package graph

import "fmt"

// arity checks how many inputs and weights a node has; the weights may be min to max.
func arity(n *Node, inputs, minWeights, maxWeights int) error {
	if len(n.In) != inputs {
		return fmt.Errorf("takes %d inputs and was given %d", inputs, len(n.In))
	}
	if len(n.Weights) < minWeights || len(n.Weights) > maxWeights {
		return fmt.Errorf("takes %d to %d weights and was given %d", minWeights, maxWeights, len(n.Weights))
	}
	return nil
}

// matrix checks that a value is a matrix stored as plain floats.
func matrix(v *Value) error {
	if v.Cache != nil {
		return fmt.Errorf("%s is a cache and a matrix is wanted", v.Name)
	}
	if v.Type == Q8 || v.Type == I8 || v.Type == F8 {
		return fmt.Errorf("%s is quantised and plain floats are wanted", v.Name)
	}
	return nil
}

// whole checks that a value has all columns of its rows on this device, as what looks at a whole row needs.
func whole(v *Value) error {
	if v.Axis.Shards > 0 {
		return fmt.Errorf("%s is [%s, %s], one of %d shards, and whole rows are wanted: an AllGather must come before", v.Name, v.Rows, v.Axis, v.Axis.Shards)
	}
	return nil
}

// vector checks that a weight is one row along an axis of this length.
func vector(w *Weight, length int) error {
	if w.Out.Len() != 1 || w.In.Len() != length {
		return fmt.Errorf("weight %s is %d × %d and one row of %d is wanted", w.Name, w.Out.Len(), w.In.Len(), length)
	}
	return nil
}

// alike checks that two values have the same shape and type.
func alike(x, y *Value) error {
	if err := matrix(x); err != nil {
		return err
	}
	if x.Rows != y.Rows || x.Axis != y.Axis || x.Type != y.Type || y.Cache != nil {
		return fmt.Errorf("%s is [%s, %s] %s and %s is [%s, %s] %s", x.Name, x.Rows, x.Axis, x.Type, y.Name, y.Rows, y.Axis, y.Type)
	}
	return nil
}

// like is a new matrix of v's shape and type.
func like(v *Value) Value { return Value{Rows: v.Rows, Axis: v.Axis, Type: v.Type} }
