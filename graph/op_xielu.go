package graph

import "fmt"

// XIELU is a function of feed-forward blocks with learned coefficients (Huang & Schlag, arXiv:2411.13010; Apertus): Positive × x² + Beta × x
// above 0, Negative × (exp(min(x, Eps)) - 1 - x) + Beta × x from 0 down.
type XIELU struct {
	simple
	Positive, Negative, Beta, Eps float64
}

// Name implements Op.
func (XIELU) Name() string { return "XIELU" }

// Attrs implements Op.
func (o XIELU) Attrs() string {
	return fmt.Sprintf("positive %.6g, negative %.6g, beta %.6g, eps %.4g", o.Positive, o.Negative, o.Beta, o.Eps)
}

// Infer implements Op: [rows, axis] → [rows, axis].
func (XIELU) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, matrix(n.In[0])
}

// Work implements Op: minimum, exponential, two differences, two products and a sum; fewer above 0, which only the numbers say.
func (XIELU) Work(n *Node, s *Step) Work { return traffic(n, s, 7*numbers(n, s)) }

// XIELU adds the function.
func (b *Builder) XIELU(name string, x *Value, o XIELU) *Value {
	return b.Emit(name, o, []*Value{x})[0]
}
