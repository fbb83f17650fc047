package graph

import "fmt"

// Angles makes the cosines and sines of a rotation at every token's position, once a step for all layers. Its axis is
// Dim/2 pairs × 2 numbers, cosine before sine, always F32.
type Angles struct {
	simple
	Rotation *Rotation
}

// Name implements Op.
func (Angles) Name() string { return "Angles" }

// Attrs implements Op.
func (o Angles) Attrs() string { return o.Rotation.String() }

// Infer implements Op: () → [tokens, pairs × 2] f32.
func (o Angles) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 0, 0, 0); err != nil {
		return nil, err
	}
	r := o.Rotation
	if r.Dim < 2 || r.Dim%2 != 0 {
		return nil, fmt.Errorf("RoPE rotates an even number of dimensions, not %d", r.Dim)
	}
	if d := r.Scaling.Short; d != nil && len(d) != r.Dim/2 {
		return nil, fmt.Errorf("%d frequency divisors for %d pairs", len(d), r.Dim/2)
	}
	if d := r.Scaling.Long; d != nil && len(d) != r.Dim/2 {
		return nil, fmt.Errorf("%d long frequency divisors for %d pairs", len(d), r.Dim/2)
	}
	if s := r.Sections; s != [3]int{} && s[0]+s[1]+s[2] != r.Dim/2 {
		return nil, fmt.Errorf("sections of %d, %d and %d pairs; there are %d", s[0], s[1], s[2], r.Dim/2)
	}
	return []Value{{Rows: Tokens, Axis: Axis{Name: "pairs", Count: r.Dim / 2, Size: 2}, Type: F32}}, nil
}

// Work implements Op: the angle, its cosine and sine, and their magnitude, for each pair.
func (o Angles) Work(n *Node, s *Step) Work {
	return traffic(n, s, int64(s.Tokens())*int64(o.Rotation.Dim/2)*5)
}

// RoPE rotates the pairs of every head by the angles of its row.
type RoPE struct {
	simple
	Pairing Pairing
	Dim     int
	From    int // first number of a head that is rotated
}

// Name implements Op.
func (RoPE) Name() string { return "RoPE" }

// Attrs implements Op.
func (o RoPE) Attrs() string {
	s := fmt.Sprintf("%d %s", o.Dim, o.Pairing)
	if o.From > 0 {
		s += fmt.Sprintf(" from %d", o.From)
	}
	return s
}

// Infer implements Op: x [tokens, heads × size], angles [tokens, Dim/2 × 2] → [tokens, heads × size].
func (o RoPE) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 0, 0); err != nil {
		return nil, err
	}
	x, angles := n.In[0], n.In[1]
	if err := matrix(x); err != nil {
		return nil, err
	}
	if x.Axis.Size < o.From+o.Dim || o.From < 0 {
		return nil, fmt.Errorf("RoPE cannot rotate %[2]d dimensions from %[3]d on of heads of %[1]d", x.Axis.Size, o.Dim, o.From)
	}
	if angles.Axis.Len() != o.Dim || angles.Type != F32 || angles.Rows != x.Rows {
		return nil, fmt.Errorf("%s does not hold the angles of %d dimensions", angles.Name, o.Dim)
	}
	return []Value{like(x)}, nil
}

// Work implements Op: four multiplications and two additions a pair.
func (o RoPE) Work(n *Node, s *Step) Work {
	return traffic(n, s, int64(s.Tokens())*int64(n.In[0].Axis.Count)*int64(o.Dim/2)*6)
}

// RoPE adds the rotation of x's heads; the angles of one rotation are computed once for the whole graph.
func (b *Builder) RoPE(name string, x *Value, r *Rotation) *Value { return b.RoPEFrom(name, x, r, 0) }

// RoPEFrom is RoPE of each head's numbers from one on.
func (b *Builder) RoPEFrom(name string, x *Value, r *Rotation, from int) *Value {
	angles, ok := b.shared[r]
	if !ok {
		layer := b.layer
		b.layer = NoLayer // of all layers
		angles = b.Emit(r.Name, Angles{Rotation: r}, nil)[0]
		b.layer = layer
		b.shared[r] = angles
	}
	return b.Emit(name, RoPE{Pairing: r.Pairing, Dim: r.Dim, From: from}, []*Value{x, angles})[0]
}
