package graph

import "fmt"

// Columns is the numbers from one on of each row: the part of a layer in embeddings for all layers, or one of several streams.
type Columns struct {
	simple
	From int
	Axis Axis // of the part
}

// Name implements Op.
func (Columns) Name() string { return "Columns" }

// Attrs implements Op.
func (o Columns) Attrs() string { return fmt.Sprintf("%d to %d", o.From, o.From+o.Axis.Len()) }

// Infer implements Op: [rows, axis] → [rows, part].
func (o Columns) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	x := n.In[0]
	if err := matrix(x); err != nil {
		return nil, err
	}
	if o.From < 0 || o.Axis.Len() < 1 || o.From+o.Axis.Len() > x.Axis.Len() {
		return nil, fmt.Errorf("%s has rows of %d numbers, and not %s", x.Name, x.Axis.Len(), o.Attrs())
	}
	return []Value{{Rows: x.Rows, Axis: o.Axis, Type: x.Type}}, whole(x)
}

// Work implements Op: only the part is read.
func (o Columns) Work(n *Node, s *Step) Work {
	bytes := int64(s.Rows(n.In[0].Rows)) * n.Out[0].RowBytes()
	return Work{ValueRead: bytes, ValueWrite: bytes}
}

// Columns adds the part of x's rows that begins with number from.
func (b *Builder) Columns(name string, x *Value, from int, part Axis) *Value {
	return b.Emit(name, Columns{From: from, Axis: part}, []*Value{x})[0]
}

// ScaleColumns multiplies the numbers of a row by those of a weight, or all by its only one.
type ScaleColumns struct{ simple }

// Name implements Op.
func (ScaleColumns) Name() string { return "ScaleColumns" }

// Attrs implements Op.
func (ScaleColumns) Attrs() string { return "" }

// Infer implements Op: x [rows, axis], w [1, axis or 1] → [rows, axis].
func (ScaleColumns) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 1, 1); err != nil {
		return nil, err
	}
	x := n.In[0]
	if err := matrix(x); err != nil {
		return nil, err
	}
	length := x.Axis.Len()
	if n.Weights[0].In.Len() == 1 {
		length = 1
	}
	return []Value{like(x)}, vector(n.Weights[0], length)
}

// Work implements Op: a multiplication each.
func (ScaleColumns) Work(n *Node, s *Step) Work { return traffic(n, s, numbers(n, s)) }

// ScaleColumns adds x × w, number by number, or by w's only one.
func (b *Builder) ScaleColumns(name string, x *Value, w *Weight) *Value {
	return b.Emit(name, ScaleColumns{}, []*Value{x}, w)[0]
}
