package graph

import "fmt"

// A residual stream may be several, one behind the other in a row (AltUp: Baykal et al., NeurIPS 2023; Gemma 3n): [rows, n × size]. A layer
// works on one of them and corrects the others.

// ExpandStreams makes several streams of one and of what matrices make of it: each of those is brought to the magnitude of the first, the
// root of its mean square. A mean square counts as Eps at least.
type ExpandStreams struct {
	simple
	Eps float64
}

// Name implements Op.
func (ExpandStreams) Name() string { return "ExpandStreams" }

// Attrs implements Op.
func (o ExpandStreams) Attrs() string { return fmt.Sprintf("eps %.4g", o.Eps) }

// Infer implements Op: x [rows, size], y [rows, n × size] → [rows, (1 + n) × size].
func (o ExpandStreams) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 0, 0); err != nil {
		return nil, err
	}
	x, y := n.In[0], n.In[1]
	for _, v := range n.In {
		if err := matrix(v); err != nil {
			return nil, err
		}
		if err := whole(v); err != nil {
			return nil, err
		}
	}
	if y.Axis.Size != x.Axis.Len() || y.Rows != x.Rows || y.Type != x.Type {
		return nil, fmt.Errorf("%s is [%s, %s] %s and is no streams of %s, which is [%s, %s] %s", y.Name, y.Rows, y.Axis, y.Type, x.Name, x.Rows, x.Axis, x.Type)
	}
	return []Value{{Rows: x.Rows, Axis: Axis{Name: "streams", Count: 1 + y.Axis.Count, Size: y.Axis.Size}, Type: x.Type}}, nil
}

// Work implements Op: a square and a sum for each number; mean and root of the first stream; mean, maximum, root, division of each other
// and a multiplication for each of its numbers.
func (o ExpandStreams) Work(n *Node, s *Step) Work {
	x, y := n.In[0], n.In[1]
	return traffic(n, s, int64(s.Rows(x.Rows))*int64(2*x.Axis.Len()+3*y.Axis.Len()+2+4*y.Axis.Count))
}

// ExpandStreams adds the making of streams of x and y.
func (b *Builder) ExpandStreams(name string, x, y *Value, eps float64) *Value {
	return b.Emit(name, ExpandStreams{Eps: eps}, []*Value{x, y})[0]
}

// streamsOf checks that a value is streams, and gives them.
func streamsOf(v *Value) (Axis, error) {
	if err := matrix(v); err != nil {
		return Axis{}, err
	}
	if v.Axis.Count < 1 {
		return Axis{}, fmt.Errorf("%s is [%s, %s], and streams are wanted", v.Name, v.Rows, v.Axis)
	}
	return v.Axis, whole(v)
}

// beside checks that a value has a row of n numbers for each of x.
func beside(v, x *Value, n int) error {
	if err := matrix(v); err != nil {
		return err
	}
	if v.Axis.Len() != n || v.Rows != x.Rows || v.Type != x.Type {
		return fmt.Errorf("%s is [%s, %s] %s, and %d numbers of %s for each row of %s are wanted", v.Name, v.Rows, v.Axis, v.Type, n, x.Type, x.Name)
	}
	return whole(v)
}

// MixStreams adds to each stream j the sum over streams i of c[j, i] × stream i: what the streams are predicted to be behind a layer.
type MixStreams struct{ simple }

// Name implements Op.
func (MixStreams) Name() string { return "MixStreams" }

// Attrs implements Op.
func (MixStreams) Attrs() string { return "" }

// Infer implements Op: x [rows, n × size], c [rows, n²] → [rows, n × size].
func (MixStreams) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 0, 0); err != nil {
		return nil, err
	}
	streams, err := streamsOf(n.In[0])
	if err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, beside(n.In[1], n.In[0], streams.Count*streams.Count)
}

// Work implements Op: a multiplication and an addition of each stream for each number.
func (MixStreams) Work(n *Node, s *Step) Work {
	return traffic(n, s, numbers(n, s)*2*int64(n.In[0].Axis.Count))
}

// MixStreams adds the prediction of streams.
func (b *Builder) MixStreams(name string, x, c *Value) *Value {
	return b.Emit(name, MixStreams{}, []*Value{x, c})[0]
}

// AddToStreams adds a row to streams: to each stream j (1 + c[j]) × y where there are coefficients, else y to the streams from From on.
type AddToStreams struct {
	simple
	From int
}

// Name implements Op.
func (AddToStreams) Name() string { return "AddToStreams" }

// Attrs implements Op.
func (o AddToStreams) Attrs() string {
	if o.From == 0 {
		return ""
	}
	return fmt.Sprintf("from %d", o.From)
}

// Infer implements Op: x [rows, n × size], y [rows, size], c? [rows, n] → [rows, n × size].
func (o AddToStreams) Infer(n *Node) ([]Value, error) {
	if err := arity(n, min(max(len(n.In), 2), 3), 0, 0); err != nil {
		return nil, err
	}
	streams, err := streamsOf(n.In[0])
	if err != nil {
		return nil, err
	}
	if err := beside(n.In[1], n.In[0], streams.Size); err != nil {
		return nil, err
	}
	if o.From < 0 || o.From >= streams.Count || o.From > 0 && len(n.In) == 3 {
		return nil, fmt.Errorf("a row cannot be added to %d streams from %d on with %d inputs", streams.Count, o.From, len(n.In))
	}
	if len(n.In) == 3 {
		err = beside(n.In[2], n.In[0], streams.Count)
	}
	return []Value{like(n.In[0])}, err
}

// Work implements Op: an addition for each number of the streams that change; with coefficients a multiplication too, and one addition for
// each stream.
func (o AddToStreams) Work(n *Node, s *Step) Work {
	a := n.In[0].Axis
	perRow := (a.Count - o.From) * a.Size
	if len(n.In) == 3 {
		perRow = 2*perRow + a.Count
	}
	return traffic(n, s, int64(s.Rows(n.In[0].Rows))*int64(perRow))
}

// AddToStreams adds y to the streams from one on.
func (b *Builder) AddToStreams(name string, x, y *Value, from int) *Value {
	return b.Emit(name, AddToStreams{From: from}, []*Value{x, y})[0]
}

// AddScaledToStreams adds (1 + c[j]) × y to each stream j.
func (b *Builder) AddScaledToStreams(name string, x, y, c *Value) *Value {
	return b.Emit(name, AddToStreams{}, []*Value{x, y, c})[0]
}

// MeanStreams makes one stream of several: their mean.
type MeanStreams struct{ simple }

// Name implements Op.
func (MeanStreams) Name() string { return "MeanStreams" }

// Attrs implements Op.
func (MeanStreams) Attrs() string { return "" }

// Infer implements Op: [rows, n × size] → [rows, hidden], of size numbers.
func (MeanStreams) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	streams, err := streamsOf(n.In[0])
	return []Value{{Rows: n.In[0].Rows, Axis: Axis{Name: "hidden", Count: streams.Size, Size: 1}, Type: n.In[0].Type}}, err
}

// Work implements Op: an addition for each number of all but one stream, and a multiplication for each of the mean.
func (MeanStreams) Work(n *Node, s *Step) Work { return traffic(n, s, numbers(n, s)) }

// MeanStreams adds the mean of x's streams.
func (b *Builder) MeanStreams(name string, x *Value) *Value {
	return b.Emit(name, MeanStreams{}, []*Value{x})[0]
}
