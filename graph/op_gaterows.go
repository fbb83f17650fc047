package graph

// GateRows multiplies each row by the sigmoid of one number: the gate of experts that every row passes (Qwen2-MoE).
type GateRows struct{ simple }

// Name implements Op.
func (GateRows) Name() string { return "GateRows" }

// Attrs implements Op.
func (GateRows) Attrs() string { return "" }

// Infer implements Op: x [rows, axis], gate [rows, 1] → [rows, axis].
func (GateRows) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 0, 0); err != nil {
		return nil, err
	}
	x, gate := n.In[0], n.In[1]
	if err := matrix(x); err != nil {
		return nil, err
	}
	if err := alike(gate, &Value{Name: "a number for each row of " + x.Name, Rows: x.Rows, Axis: Axis{Name: gate.Axis.Name, Count: 1, Size: 1}, Type: x.Type}); err != nil {
		return nil, err
	}
	return []Value{like(x)}, nil
}

// Work implements Op: a multiplication each, and a row's sigmoid.
func (GateRows) Work(n *Node, s *Step) Work {
	return traffic(n, s, numbers(n, s)+3*int64(s.Rows(n.In[0].Rows)))
}

// GateRows adds x × sigmoid(gate), row by row.
func (b *Builder) GateRows(name string, x, gate *Value) *Value {
	return b.Emit(name, GateRows{}, []*Value{x, gate})[0]
}
