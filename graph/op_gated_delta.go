package graph

import "fmt"

// GatedDelta is linear attention by the gated delta rule (Yang et al., arXiv:2412.06464), as Qwen3-Next and Qwen3.5 have it. A row of x is
// a token's queries and keys of KeyHeads heads of KeySize, and its values of ValueHeads heads of ValueSize. Key head h is that of value
// heads h·r to h·r+r-1, with r value heads a key head. Queries and keys are divided by their lengths, queries by √KeySize as well. With
// g = A·softplus(a + bias), where A is negative, and β = sigmoid(b), a value head's state S [KeySize × ValueSize] goes on as
//
//	S ← e^g·S;  S ← S + k ⊗ β(v − Sᵀk);  o = Sᵀq
type GatedDelta struct {
	simple
	KeyHeads, KeySize     int
	ValueHeads, ValueSize int
	Tiled                 bool // value head h is one of key head h mod KeyHeads instead, as GGUF files have them
}

// KeyHead is the key head of a value head.
func (o GatedDelta) KeyHead(h int) int {
	if o.Tiled {
		return h % o.KeyHeads
	}
	return h / (o.ValueHeads / o.KeyHeads)
}

// L2Eps is what GatedDelta adds to the squared length of a query or key before its root.
const L2Eps = 1e-6

// Name implements Op.
func (GatedDelta) Name() string { return "GatedDelta" }

// Attrs implements Op.
func (o GatedDelta) Attrs() string {
	s := fmt.Sprintf("keys %d×%d, values %d×%d", o.KeyHeads, o.KeySize, o.ValueHeads, o.ValueSize)
	if o.Tiled {
		s += ", tiled"
	}
	return s
}

// Width is how many numbers a row of queries, keys and values has.
func (o GatedDelta) Width() int { return 2*o.KeyHeads*o.KeySize + o.ValueHeads*o.ValueSize }

// Infer implements Op: x [tokens, q∥k∥v], a [tokens, value heads], b [tokens, value heads], state [value heads × key size·value size];
// weights A [1, value heads] and bias [1, value heads] → [tokens, value heads × value size] and the state's next version.
func (o GatedDelta) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 4, 2, 2); err != nil {
		return nil, err
	}
	x := n.In[0]
	if o.KeyHeads < 1 || o.KeySize < 1 || o.ValueHeads < 1 || o.ValueSize < 1 || o.ValueHeads%o.KeyHeads != 0 {
		return nil, fmt.Errorf("%d value heads of %d cannot share %d key heads of %d equally", o.ValueHeads, o.ValueSize, o.KeyHeads, o.KeySize)
	}
	if x.Axis.Len() != o.Width() {
		return nil, fmt.Errorf("%s has rows of %d; queries, keys and values are %d", x.Name, x.Axis.Len(), o.Width())
	}
	if err := recurrent(x, n.In[3], o.ValueHeads, o.KeySize*o.ValueSize); err != nil {
		return nil, err
	}
	for _, v := range n.In[1:3] {
		if err := perHead(v, x, o.ValueHeads); err != nil {
			return nil, err
		}
	}
	for _, w := range n.Weights {
		if err := vector(w, o.ValueHeads); err != nil {
			return nil, err
		}
	}
	return []Value{{Rows: x.Rows, Axis: Axis{Name: "values", Count: o.ValueHeads, Size: o.ValueSize, Shards: x.Axis.Shards}, Type: x.Type}, {Cache: n.In[3].Cache}}, nil
}

// perHead checks that a value has a number for each head of each row of x.
func perHead(v, x *Value, heads int) error {
	if err := matrix(v); err != nil {
		return err
	}
	if v.Rows != x.Rows || v.Axis.Len() != heads || v.Type != x.Type {
		return fmt.Errorf("%s is [%s, %s] %s; a number in %s for each of %d heads is wanted", v.Name, v.Rows, v.Axis, v.Type, x.Type, heads)
	}
	return nil
}

// Work implements Op. A token and value head: the decay of the state; Sᵀk, the outer product and Sᵀq, each a product and a sum a
// number; v − Sᵀk times β. The lengths of q and k, once a key head; and g and β.
func (o GatedDelta) Work(n *Node, s *Step) Work {
	state := int64(o.KeySize) * int64(o.ValueSize)
	perToken := int64(o.ValueHeads)*(7*state+2*int64(o.ValueSize)+gateFlops) + int64(o.KeyHeads)*(6*int64(o.KeySize)+7)
	return stateTraffic(n, s, int64(s.Tokens())*perToken)
}

// gateFlops is what g, its exponential and β take: sum, softplus (exponential, sum, logarithm), product, exponential; and a sigmoid's three.
const gateFlops = 9

// GatedDelta adds the layer.
func (b *Builder) GatedDelta(name string, layer int, x, alpha, beta *Value, o GatedDelta, decay, bias *Weight) *Value {
	state := b.State("delta", layer, Axis{Name: "values", Count: o.ValueHeads, Size: o.KeySize * o.ValueSize})
	return b.Emit(name, o, []*Value{x, alpha, beta, state}, decay, bias)[0]
}
