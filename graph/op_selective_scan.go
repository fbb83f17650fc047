package graph

import "fmt"

// SelectiveScan is Mamba 1's state space layer (Gu & Dao, arXiv:2312.00752): every number of a row has a state h of its own, of as many
// numbers as B and C, and with Δ = softplus(dt) and A negative it goes on as
//
//	h ← e^(ΔA)·h + Δx·B;  y = h·C + D·x
type SelectiveScan struct{ simple }

// Name implements Op.
func (SelectiveScan) Name() string { return "SelectiveScan" }

// Attrs implements Op.
func (SelectiveScan) Attrs() string { return "" }

// Infer implements Op: x [tokens, inner], dt [tokens, inner], B [tokens, state], C [tokens, state], state [inner × state]; weights
// A [inner, state] and D [1, inner] → [tokens, inner] and the state's next version.
func (SelectiveScan) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 5, 2, 2); err != nil {
		return nil, err
	}
	x, inner, size := n.In[0], n.In[0].Axis.Len(), n.In[2].Axis.Len()
	if err := recurrent(x, n.In[4], inner, size); err != nil {
		return nil, err
	}
	if err := alike(x, n.In[1]); err != nil {
		return nil, err
	}
	if err := alike(n.In[2], n.In[3]); err != nil {
		return nil, err
	}
	if b := n.In[2]; b.Rows != x.Rows || b.Type != x.Type {
		return nil, fmt.Errorf("%s is [%s] %s and %s [%s] %s", b.Name, b.Rows, b.Type, x.Name, x.Rows, x.Type)
	}
	if w := n.Weights[0]; w.Out.Len() != inner || w.In.Len() != size {
		return nil, fmt.Errorf("weight %s is %d × %d and %d × %d is wanted", w.Name, w.Out.Len(), w.In.Len(), inner, size)
	}
	return []Value{like(x), {Cache: n.In[4].Cache}}, vector(n.Weights[1], inner)
}

// Work implements Op. A number of the state: ΔA and its exponential, decay, product with B and sum, product with C and sum. A number of
// x: softplus, times Δ, times D and sum.
func (SelectiveScan) Work(n *Node, s *Step) Work {
	return stateTraffic(n, s, numbers(n, s)*(7*int64(n.In[2].Axis.Len())+6))
}

// SelectiveScan adds the layer; the arguments are as Infer says, from dt on as Δ before its softplus.
func (b *Builder) SelectiveScan(name string, layer int, x, dt, in, out *Value, decay, skip *Weight) *Value {
	state := b.State("ssm", layer, Axis{Name: "inner", Count: x.Axis.Len(), Size: max(in.Axis.Len(), 1)})
	return b.Emit(name, SelectiveScan{}, []*Value{x, dt, in, out, state}, decay, skip)[0]
}
