package graph

import "fmt"

// Fn is a pointwise function of a feed-forward block.
type Fn uint8

const (
	Silu     Fn = iota // x × sigmoid(x)
	GeluTanh           // 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))
	GeluErf            // 0.5 x (1 + erf(x / √2))
	Relu               // max(x, 0)
	Relu2              // max(x, 0)² (So et al., arXiv:2109.08668)
	Sigmoid            // 1 / (1 + exp(-x))
	Identity           // x: the gate of ActMul is a factor
)

func (f Fn) String() string {
	return [...]string{"silu", "gelu_tanh", "gelu", "relu", "relu2", "sigmoid", "identity"}[f]
}

// flops is what the function costs a number; exp, tanh and erf count one.
func (f Fn) flops() int64 { return [...]int64{4, 9, 4, 1, 2, 4, 0}[f] }

// Act applies a function to every number.
type Act struct {
	simple
	Fn Fn
}

// Name implements Op.
func (Act) Name() string { return "Act" }

// Attrs implements Op.
func (o Act) Attrs() string { return o.Fn.String() }

// Infer implements Op: [rows, axis] → [rows, axis].
func (o Act) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, matrix(n.In[0])
}

// Work implements Op.
func (o Act) Work(n *Node, s *Step) Work { return traffic(n, s, numbers(n, s)*o.Fn.flops()) }

// Act adds the function.
func (b *Builder) Act(name string, x *Value, fn Fn) *Value {
	return b.Emit(name, Act{Fn: fn}, []*Value{x})[0]
}

// ActMul is the gate of a feed-forward block: fn(gate) × up (Shazeer, arXiv:2002.05202).
type ActMul struct {
	simple
	Fn Fn
}

// Name implements Op.
func (ActMul) Name() string { return "ActMul" }

// Attrs implements Op.
func (o ActMul) Attrs() string { return o.Fn.String() }

// Infer implements Op: gate [rows, axis], up [rows, axis] → [rows, axis].
func (o ActMul) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 0, 0); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, alike(n.In[0], n.In[1])
}

// Work implements Op.
func (o ActMul) Work(n *Node, s *Step) Work { return traffic(n, s, numbers(n, s)*(o.Fn.flops()+1)) }

// ActMul adds fn(gate) × up.
func (b *Builder) ActMul(name string, gate, up *Value, fn Fn) *Value {
	return b.Emit(name, ActMul{Fn: fn}, []*Value{gate, up})[0]
}

// Add sums two values of the same shape: the residual stream.
type Add struct{ simple }

// Name implements Op.
func (Add) Name() string { return "Add" }

// Attrs implements Op.
func (Add) Attrs() string { return "" }

// Infer implements Op: [rows, axis], [rows, axis] → [rows, axis].
func (Add) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 0, 0); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, alike(n.In[0], n.In[1])
}

// Work implements Op.
func (Add) Work(n *Node, s *Step) Work { return traffic(n, s, numbers(n, s)) }

// Add adds x + y.
func (b *Builder) Add(name string, x, y *Value) *Value {
	return b.Emit(name, Add{}, []*Value{x, y})[0]
}

// Softcap bends numbers into (-Cap, Cap): cap × tanh(x / cap) (Gemma 2).
type Softcap struct {
	simple
	Cap float64
}

// Name implements Op.
func (Softcap) Name() string { return "Softcap" }

// Attrs implements Op.
func (o Softcap) Attrs() string { return fmt.Sprintf("%g", o.Cap) }

// Infer implements Op: [rows, axis] → [rows, axis].
func (o Softcap) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, matrix(n.In[0])
}

// Work implements Op: a division, tanh and a multiplication.
func (o Softcap) Work(n *Node, s *Step) Work { return traffic(n, s, 3*numbers(n, s)) }

// Softcap adds the bend.
func (b *Builder) Softcap(name string, x *Value, limit float64) *Value {
	return b.Emit(name, Softcap{Cap: limit}, []*Value{x})[0]
}

// numbers is how many numbers the node's first output has in the step.
func numbers(n *Node, s *Step) int64 {
	return int64(s.Rows(n.In[0].Rows)) * int64(n.In[0].Axis.Len())
}
