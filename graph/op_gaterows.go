package graph

// GateRows multiplies each row by the sigmoid of one number, the largest of its gates: the gate of experts that every row passes
// (Qwen2-MoE), or the score of the expert that a row is about to pass (Llama 4).
type GateRows struct{ simple }

// Name implements Op.
func (GateRows) Name() string { return "GateRows" }

// Attrs implements Op.
func (GateRows) Attrs() string { return "" }

// Infer implements Op: x [rows, axis], gates [rows, n] → [rows, axis].
func (GateRows) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 0, 0); err != nil {
		return nil, err
	}
	x, gate := n.In[0], n.In[1]
	if err := matrix(x); err != nil {
		return nil, err
	}
	if err := alike(gate, &Value{Name: "gates of the rows of " + x.Name, Rows: x.Rows, Axis: gate.Axis, Type: x.Type}); err != nil {
		return nil, err
	}
	if err := whole(gate); err != nil {
		return nil, err
	}
	return []Value{like(x)}, nil
}

// Work implements Op: a multiplication each, and a row's largest gate and its sigmoid.
func (GateRows) Work(n *Node, s *Step) Work {
	return traffic(n, s, numbers(n, s)+int64(2+n.In[1].Axis.Len())*int64(s.Rows(n.In[0].Rows)))
}

// GateRows adds x × sigmoid(largest gate), row by row.
func (b *Builder) GateRows(name string, x, gate *Value) *Value {
	return b.Emit(name, GateRows{}, []*Value{x, gate})[0]
}
