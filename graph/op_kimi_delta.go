package graph

import "fmt"

// KimiDelta is linear attention by the gated delta rule with a decay for each number of a key (Kimi Delta Attention, arXiv:2510.26692). Queries,
// keys and values are rows of Heads heads of Size. Queries and keys are divided by their lengths, queries by √Size as well. With
// g = A·softplus(a + bias), where A, of a head, is negative, and β = sigmoid(b), a head's state S [Size × Size] goes on as
//
//	S ← diag(e^g)·S;  S ← S + k ⊗ β(v − Sᵀk);  o = Sᵀq
type KimiDelta struct {
	simple
	Heads, Size int
}

// Name implements Op.
func (KimiDelta) Name() string { return "KimiDelta" }

// Attrs implements Op.
func (o KimiDelta) Attrs() string { return fmt.Sprintf("%d heads of %d", o.Heads, o.Size) }

// Infer implements Op: q, k, v and a [tokens, heads × size], b [tokens, heads], state [heads × size·size]; weights A [heads, 1] and bias
// [1, heads × size] → [tokens, heads × size] and the state's next version.
func (o KimiDelta) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 6, 2, 2); err != nil {
		return nil, err
	}
	if o.Heads < 1 || o.Size < 1 {
		return nil, fmt.Errorf("%d heads of %d", o.Heads, o.Size)
	}
	q := n.In[0]
	if err := recurrent(q, n.In[5], o.Heads, o.Size*o.Size); err != nil {
		return nil, err
	}
	for i, length := range []int{o.Heads * o.Size, o.Heads * o.Size, o.Heads * o.Size, o.Heads * o.Size, o.Heads} {
		if err := perHead(n.In[i], q, length); err != nil {
			return nil, err
		}
	}
	if a := n.Weights[0]; a.Out.Len() != o.Heads || a.In.Len() != 1 {
		return nil, fmt.Errorf("weight %s is %d × %d and a row of one number for each of %d heads is wanted", a.Name, a.Out.Len(), a.In.Len(), o.Heads)
	}
	if err := vector(n.Weights[1], o.Heads*o.Size); err != nil {
		return nil, err
	}
	return []Value{{Rows: q.Rows, Axis: Axis{Name: "values", Count: o.Heads, Size: o.Size, Shards: q.Axis.Shards}, Type: q.Type}, {Cache: n.In[5].Cache}}, nil
}

// Work implements Op. A token and head: the decay of the state, Sᵀk, the outer product and Sᵀq, as GatedDelta's; v − Sᵀk times β; the
// lengths of q and k; g and its exponential for each number of a key; β.
func (o KimiDelta) Work(n *Node, s *Step) Work {
	size := int64(o.Size)
	return stateTraffic(n, s, int64(s.Tokens())*int64(o.Heads)*(7*size*size+2*size+(6*size+7)+6*size+3))
}

// KimiDelta adds the layer.
func (b *Builder) KimiDelta(name string, layer int, q, k, v, decay, beta *Value, o KimiDelta, a, bias *Weight) *Value {
	state := b.State("delta", layer, Axis{Name: "values", Count: o.Heads, Size: o.Size * o.Size})
	return b.Emit(name, o, []*Value{q, k, v, decay, beta, state}, a, bias)[0]
}
