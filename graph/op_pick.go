package graph

// Pick keeps the rows whose logits are wanted, so that the head runs on those alone.
type Pick struct{ simple }

// Name implements Op.
func (Pick) Name() string { return "Pick" }

// Attrs implements Op.
func (Pick) Attrs() string { return "" }

// Infer implements Op: [tokens, axis] → [logits, axis].
func (Pick) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	return []Value{{Rows: Logits, Axis: n.In[0].Axis, Type: n.In[0].Type}}, matrix(n.In[0])
}

// Work implements Op: only the rows kept are read.
func (Pick) Work(n *Node, s *Step) Work {
	rows := int64(s.Logits) * n.In[0].RowBytes()
	return Work{ValueRead: rows, ValueWrite: rows}
}

// Pick adds the choice of rows.
func (b *Builder) Pick(name string, x *Value) *Value {
	return b.Emit(name, Pick{}, []*Value{x})[0]
}
