package graph

import "fmt"

// Where devices divide the rows of steps (Sequence), these ops bring rows together, or columns of all rows, and divide them again. Their costs are those of direct
// messages, of the rows of equal shares.

// GatherRows gives every device the rows of all.
type GatherRows struct {
	simple
	Ranks int
}

// Name implements Op.
func (GatherRows) Name() string { return "GatherRows" }

// Attrs implements Op.
func (o GatherRows) Attrs() string { return fmt.Sprintf("%d ranks", o.Ranks) }

// Infer implements Op: [tokens, axis] → [all tokens, axis].
func (o GatherRows) Infer(n *Node) ([]Value, error) { return exchanged(n, o.Ranks, Tokens, AllTokens) }

// Work implements Op: each device sends its rows to all others.
func (o GatherRows) Work(n *Node, s *Step) Work { return exchange(n, s, o.Ranks, n.In[0].RowBytes()) }

// OwnRows takes a device's own rows from those of all.
type OwnRows struct {
	simple
	Ranks int
}

// Name implements Op.
func (OwnRows) Name() string { return "OwnRows" }

// Attrs implements Op.
func (o OwnRows) Attrs() string { return fmt.Sprintf("%d ranks", o.Ranks) }

// Infer implements Op: [all tokens, axis] → [tokens, axis].
func (o OwnRows) Infer(n *Node) ([]Value, error) { return exchanged(n, o.Ranks, AllTokens, Tokens) }

// Work implements Op: nothing is sent.
func (o OwnRows) Work(n *Node, s *Step) Work {
	bytes := ceilDiv(n.In[0].RowBytes(), int64(o.Ranks)) * int64(s.Tokens())
	return Work{ValueRead: bytes, ValueWrite: bytes}
}

// GatherSelected gives the first device the rows whose logits are wanted, wherever they are.
type GatherSelected struct {
	simple
	Ranks int
}

// Name implements Op.
func (GatherSelected) Name() string { return "GatherSelected" }

// Attrs implements Op.
func (o GatherSelected) Attrs() string { return fmt.Sprintf("%d ranks, to the first", o.Ranks) }

// Infer implements Op: [tokens, axis] → [logits, axis].
func (o GatherSelected) Infer(n *Node) ([]Value, error) { return exchanged(n, o.Ranks, Tokens, Logits) }

// Work implements Op: what is selected is sent, but for the first device's share.
func (o GatherSelected) Work(n *Node, s *Step) Work {
	rows := int64(s.Logits)
	w := Work{ValueRead: rows * ceilDiv(n.In[0].RowBytes(), int64(o.Ranks)), ValueWrite: rows * n.Out[0].RowBytes(), Messages: 1}
	w.LinkBytes = w.ValueRead
	return w
}

// ToHeads exchanges all columns of a device's own rows for its heads of all rows (Ulysses; Jacobs et al., arXiv:2309.14509). Axis is a device's heads: as many of all as
// there are devices to divide them, or one, of which several devices have copies.
type ToHeads struct {
	simple
	Ranks int
	Axis  Axis
}

// Name implements Op.
func (ToHeads) Name() string { return "ToHeads" }

// Attrs implements Op.
func (o ToHeads) Attrs() string { return fmt.Sprintf("%d ranks", o.Ranks) }

// Infer implements Op: [tokens, heads] → [all tokens, heads /ranks].
func (o ToHeads) Infer(n *Node) ([]Value, error) {
	v, err := exchanged(n, o.Ranks, Tokens, AllTokens)
	if err == nil {
		err = o.divides(n.In[0].Axis, o.Axis)
	}
	if err != nil {
		return nil, err
	}
	v[0].Axis = o.Axis
	return v, nil
}

// divides checks that parts are what devices have of an axis.
func (o ToHeads) divides(whole, part Axis) error {
	if whole.Size != part.Size || part.Count < 1 || part.Count*o.Ranks != whole.Count && (part.Count != 1 || o.Ranks%whole.Count != 0) {
		return fmt.Errorf("%s is not what each of %d devices has of %s", part, o.Ranks, whole)
	}
	return nil
}

// Work implements Op: each device sends every other one its heads.
func (o ToHeads) Work(n *Node, s *Step) Work { return exchange(n, s, o.Ranks, n.Out[0].RowBytes()) }

// Piece is which columns of a row of whole numbers of heads rank i has.
func (o ToHeads) Piece(whole Axis, i int) (from, to int) {
	from = i * whole.Count / o.Ranks * whole.Size
	return from, from + o.Axis.Len()
}

// FromHeads is the way back: Axis is all heads of a device's own rows.
type FromHeads struct {
	simple
	Ranks int
	Axis  Axis
}

// Name implements Op.
func (FromHeads) Name() string { return "FromHeads" }

// Attrs implements Op.
func (o FromHeads) Attrs() string { return fmt.Sprintf("%d ranks", o.Ranks) }

// Infer implements Op: [all tokens, heads /ranks] → [tokens, heads].
func (o FromHeads) Infer(n *Node) ([]Value, error) {
	v, err := exchanged(n, o.Ranks, AllTokens, Tokens)
	if err != nil {
		return nil, err
	}
	if part := n.In[0].Axis; part.Size != o.Axis.Size || part.Count*o.Ranks != o.Axis.Count {
		return nil, fmt.Errorf("%s is not what each of %d devices has of %s", part, o.Ranks, o.Axis)
	}
	v[0].Axis = o.Axis
	return v, nil
}

// Work implements Op: each device sends every other one its rows.
func (o FromHeads) Work(n *Node, s *Step) Work { return exchange(n, s, o.Ranks, n.In[0].RowBytes()) }

// exchanged is a value with other rows, and checks the node.
func exchanged(n *Node, ranks int, from, to Rows) ([]Value, error) {
	if err := collective(n, ranks); err != nil {
		return nil, err
	}
	v := like(n.In[0])
	if v.Rows != from {
		return nil, fmt.Errorf("%s has a row per %s, and %s are wanted", n.In[0].Name, v.Rows, from)
	}
	v.Rows = to
	return []Value{v}, nil
}

// exchange is the Work of messages of an equal share of all rows, of so many bytes each, from every device to every other one. s counts the rows of all.
func exchange(n *Node, s *Step, ranks int, rowBytes int64) Work {
	rows, others := int64(s.Tokens()), int64(ranks-1)
	bytes := func(v *Value) int64 {
		if v.Rows == AllTokens {
			return rows * v.RowBytes()
		}
		return rows * ceilDiv(v.RowBytes(), int64(ranks))
	}
	return Work{ValueRead: bytes(n.In[0]), ValueWrite: bytes(n.Out[0]), LinkBytes: rows * ceilDiv(others*rowBytes, int64(ranks)), Messages: others}
}
