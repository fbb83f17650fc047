package graph

import (
	"fmt"
	"math"
)

// SSD is Mamba 2's state space layer (Dao & Gu, arXiv:2405.21060). A row of x is a token's inputs of Heads heads of HeadSize, and B and C
// of Groups groups of StateSize each; a group's are those of Heads/Groups heads, one behind the other. With Δ = softplus(dt + bias), clamped
// to [MinStep, MaxStep] (0: no bound), and A negative, a head's state h [HeadSize × StateSize] goes on as
//
//	h ← e^(ΔA)·h + Δ·x ⊗ B;  y = h·C + D·x
type SSD struct {
	simple
	Heads, HeadSize   int
	Groups, StateSize int
	MinStep, MaxStep  float64
}

// Name implements Op.
func (SSD) Name() string { return "SSD" }

// Attrs implements Op.
func (o SSD) Attrs() string {
	s := fmt.Sprintf("heads %d×%d, groups %d×%d", o.Heads, o.HeadSize, o.Groups, o.StateSize)
	if o.MinStep != 0 || o.MaxStep != 0 {
		s += fmt.Sprintf(", steps of %g to %g", o.MinStep, o.MaxStep)
	}
	return s
}

// Width is how many numbers a row of x, B and C has.
func (o SSD) Width() int { return o.Heads*o.HeadSize + 2*o.Groups*o.StateSize }

// Clamp is a step within its bounds.
func (o SSD) Clamp(step float64) float64 {
	if o.MaxStep != 0 {
		step = math.Min(step, o.MaxStep)
	}
	return math.Max(step, o.MinStep)
}

// Infer implements Op: x [tokens, x∥B∥C], dt [tokens, heads], state [heads × head size·state size]; weights A, bias and D [1, heads]
// → [tokens, heads × head size] and the state's next version.
func (o SSD) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 3, 3, 3); err != nil {
		return nil, err
	}
	x := n.In[0]
	if o.Heads < 1 || o.HeadSize < 1 || o.Groups < 1 || o.StateSize < 1 || o.Heads%o.Groups != 0 {
		return nil, fmt.Errorf("%d heads of %d cannot share %d groups of %d equally", o.Heads, o.HeadSize, o.Groups, o.StateSize)
	}
	if x.Axis.Len() != o.Width() {
		return nil, fmt.Errorf("%s has rows of %d; x, B and C are %d", x.Name, x.Axis.Len(), o.Width())
	}
	if err := recurrent(x, n.In[2], o.Heads, o.HeadSize*o.StateSize); err != nil {
		return nil, err
	}
	if err := perHead(n.In[1], x, o.Heads); err != nil {
		return nil, err
	}
	for _, w := range n.Weights {
		if err := vector(w, o.Heads); err != nil {
			return nil, err
		}
	}
	return []Value{{Rows: x.Rows, Axis: Axis{Name: "inner", Count: o.Heads, Size: o.HeadSize, Shards: x.Axis.Shards}, Type: x.Type}, {Cache: n.In[2].Cache}}, nil
}

// Work implements Op. A number of the state: decay, outer product and sum, product with C and sum. A number of x: times Δ, times D and
// sum. A head: Δ and its decay.
func (o SSD) Work(n *Node, s *Step) Work {
	perHead := int64(o.HeadSize)*(5*int64(o.StateSize)+3) + stepFlops
	return stateTraffic(n, s, int64(s.Tokens())*int64(o.Heads)*perHead)
}

// stepFlops is what Δ and e^(ΔA) take: sum, softplus (exponential, sum, logarithm), two bounds, product, exponential.
const stepFlops = 8

// SSD adds the layer.
func (b *Builder) SSD(name string, layer int, x, dt *Value, o SSD, decay, bias, skip *Weight) *Value {
	state := b.State("ssm", layer, Axis{Name: "inner", Count: o.Heads, Size: o.HeadSize * o.StateSize})
	return b.Emit(name, o, []*Value{x, dt, state}, decay, bias, skip)[0]
}
