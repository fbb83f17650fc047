package graph

// SelectRows keeps the rows whose logits are wanted, so that the head runs on those alone.
type SelectRows struct{ simple }

// Name implements Op.
func (SelectRows) Name() string { return "SelectRows" }

// Attrs implements Op.
func (SelectRows) Attrs() string { return "" }

// Infer implements Op: [tokens, axis] → [logits, axis].
func (SelectRows) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	return []Value{{Rows: Logits, Axis: n.In[0].Axis, Type: n.In[0].Type}}, matrix(n.In[0])
}

// Work implements Op: only the rows kept are read.
func (SelectRows) Work(n *Node, s *Step) Work {
	rows := int64(s.Logits) * n.In[0].RowBytes()
	return Work{ValueRead: rows, ValueWrite: rows}
}

// SelectRows adds the selection of rows.
func (b *Builder) SelectRows(name string, x *Value) *Value {
	return b.Emit(name, SelectRows{}, []*Value{x})[0]
}
