package graph

import (
	"fmt"
	"math"
)

// Scale multiplies the numbers of a row by one factor: By times what Growth makes of the token's position.
type Scale struct {
	simple
	By     float64
	Growth Growth
}

// Growth is a factor that grows with a token's position p: 1 + Beta × ln(1 + ⌊(p + From) / Every⌋). Queries are scaled by it so that
// attention stays sharp in long contexts (Llama 4, Ministral 3). The zero Growth is 1 everywhere.
type Growth struct {
	Beta        float64
	Every, From int // tokens
}

// At is the factor at a position.
func (g Growth) At(position int) float64 {
	if g.Every == 0 {
		return 1
	}
	return 1 + g.Beta*math.Log(float64(1+(position+g.From)/g.Every))
}

// Name implements Op.
func (Scale) Name() string { return "Scale" }

// Attrs implements Op.
func (o Scale) Attrs() string {
	s := fmt.Sprintf("by %.6g", o.By)
	if g := o.Growth; g.Every != 0 {
		s += fmt.Sprintf(", growing by %g × ln(1 + (position + %d) / %d)", g.Beta, g.From, g.Every)
	}
	return s
}

// Infer implements Op: [rows, axis] → [rows, axis]; only rows of tokens have positions.
func (o Scale) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	if g := o.Growth; g.Every < 0 || g.From < 0 || g.Every > 0 && n.In[0].Rows != Tokens {
		return nil, fmt.Errorf("rows of %s cannot be scaled by positions + %d over %d", n.In[0].Rows, g.From, g.Every)
	}
	return []Value{like(n.In[0])}, matrix(n.In[0])
}

// Work implements Op: a multiplication; sum, division, addition, logarithm, product, sum and product for a row's factor where it grows.
func (o Scale) Work(n *Node, s *Step) Work {
	flops := numbers(n, s)
	if o.Growth.Every != 0 {
		flops += 7 * int64(s.Rows(n.In[0].Rows))
	}
	return traffic(n, s, flops)
}

// Scale adds the multiplication of x by a number.
func (b *Builder) Scale(name string, x *Value, by float64) *Value {
	return b.Emit(name, Scale{By: by}, []*Value{x})[0]
}

// ScaleByPosition adds the multiplication of x by what g makes of each token's position.
func (b *Builder) ScaleByPosition(name string, x *Value, g Growth) *Value {
	return b.Emit(name, Scale{By: 1, Growth: g}, []*Value{x})[0]
}
