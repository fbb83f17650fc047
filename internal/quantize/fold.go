package quantize

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// A scale of an input's columns is folded into what makes the input, which is divided by it, and into the matrices that read it, whose columns are
// multiplied by it: the model computes the same.

// maker is what scales of an input can be folded into.
type maker struct {
	norm *graph.Node // its weight, and bias, are divided; nil: it is no norm
	rows *graph.Node // a linear layer, whose rows are divided
	// shared is, of rows, how many consecutive columns of the input, each of size numbers, are made of the same rows: heads of queries that share
	// values. 1: none.
	shared, size int
}

// makerOf finds what makes an input, if scales can be folded into it.
func (q *job) makerOf(in *input) (maker, bool) {
	n := in.value.From
	if n == nil || !q.onlyReaders(in.value, in.nodes) {
		return maker{}, false
	}
	switch o := n.Op.(type) {
	case graph.RMSNorm:
		return maker{norm: n}, o.WholeRows() && foldable(n.Weights[0])
	case graph.LayerNorm:
		return maker{norm: n}, !slices.ContainsFunc(n.Weights, func(w *graph.Weight) bool { return !foldable(w) })
	case graph.ActMul:
		up := n.In[1].From
		return maker{rows: up, shared: 1, size: 1}, q.linearFor(n.In[1], n)
	case graph.Attention:
		write := n.In[1].From
		if write == nil || len(write.In) != 3 || write.In[0].Cache == nil || write.In[0].Cache.Latent {
			return maker{}, false
		}
		v := write.In[2]
		heads, kv := in.value.Axis, v.Axis
		if heads.Size != kv.Size || kv.Count == 0 || heads.Count%kv.Count != 0 {
			return maker{}, false
		}
		return maker{rows: v.From, shared: heads.Count / kv.Count, size: kv.Size}, q.linearFor(v, write)
	}
	return maker{}, false
}

// onlyReaders reports whether nodes are all that read a value.
func (q *job) onlyReaders(v *graph.Value, nodes []*graph.Node) bool {
	for _, n := range q.g.Nodes {
		if slices.Contains(n.In, v) && !slices.Contains(nodes, n) {
			return false
		}
	}
	return v != q.g.Output && v != q.g.Hidden
}

// linearFor reports whether a value is made by a linear layer for one node alone, with weights that can be scaled.
func (q *job) linearFor(v *graph.Value, n *graph.Node) bool {
	if v.From == nil || !quantizable(v.From) || !q.onlyReaders(v, []*graph.Node{n}) {
		return false
	}
	for i, w := range v.From.Weights {
		if i == 0 {
			if _, err := placeOf(w); err != nil {
				return false
			}
		} else if !foldable(w) {
			return false
		}
	}
	return true
}

// foldable reports whether a vector is a tensor of the file, or one plus it.
func foldable(w *graph.Weight) bool {
	_, _, ok := vectorOf(w)
	return ok
}

// vectorOf is the tensor that a vector is, and whether 1 is added to it.
func vectorOf(w *graph.Weight) (tensor string, plusOne, ok bool) {
	switch r := w.Recipe.(type) {
	case recipe.Tensor:
		return string(r), false, true
	case recipe.PlusOne:
		t, ok := r.Of.(recipe.Tensor)
		return string(t), true, ok
	}
	return "", false, false
}

// columns is, for each column of the input, the number of the row that makes it.
func (m *maker) columns(cols int) []int {
	at := make([]int, cols)
	for c := range at {
		head, d := c/m.size, c%m.size
		at[c] = head/m.shared*m.size + d
	}
	if m.size == 1 {
		for c := range at {
			at[c] = c
		}
	}
	return at
}

// share makes scales of columns that are made of the same rows one: their mean.
func (m *maker) share(s []float32) {
	if m.rows == nil || m.shared == 1 {
		return
	}
	at := m.columns(len(s))
	sums, n := make([]float64, len(s)), make([]int, len(s))
	for c, r := range at {
		sums[r] += float64(s[c])
		n[r]++
	}
	for c, r := range at {
		s[c] = float32(sums[r] / float64(n[r]))
	}
}

// floatsOf is the numbers of a tensor as they are now.
func (q *job) floatsOf(name string) ([]float32, quant.Tensor, error) {
	t, ok := q.dir.Tensor(name)
	if !ok {
		return nil, t, fmt.Errorf("quantize: the file has no tensor %s", name)
	}
	l := layerTensor{name: name, Tensor: t}
	x, err := l.floats()
	return x, t, err
}

// fold folds scales of an input into its maker and its readers. Those that go into a norm are changed so that its weight has them exactly
// in the file's own number format.
func (q *job) fold(in *input, m maker, s []float32) error {
	s = slices.Clone(s)
	if m.norm != nil {
		if err := q.foldNorm(m.norm, s); err != nil {
			return err
		}
	} else if err := q.foldRows(&m, s); err != nil {
		return err
	}
	tensors, err := q.tensorsOf(in)
	if err != nil {
		return err
	}
	for _, t := range tensors {
		x, err := t.floats()
		if err != nil {
			return err
		}
		for i := range x {
			x[i] *= s[i%t.Cols]
		}
		q.dir.Replace(t.name, quant.FromFloats(x, t.Rows, t.Cols))
	}
	return nil
}

// foldNorm divides a norm's weight by s, and then makes s what it was divided by after rounding.
func (q *job) foldNorm(n *graph.Node, s []float32) error {
	for i, w := range n.Weights {
		name, plusOne, _ := vectorOf(w)
		x, t, err := q.floatsOf(name)
		if err != nil {
			return err
		}
		before := t.Format
		if info, ok := q.dir.Source.Info(name); ok { // and not that of what scales were folded into before
			if f, err := quant.Parse(info.DType); err == nil {
				before = f
			}
		}
		one := float32(0)
		if plusOne {
			one = 1
		}
		for c, v := range x {
			old := v + one
			now := rounded(before, old/s[c]-one)
			if i == 0 {
				if now+one == 0 || old == 0 {
					s[c], now = 1, v
				} else {
					s[c] = old / (now + one)
				}
			}
			x[c] = now
		}
		q.keepFolded(name, quant.FromFloats(x, t.Rows, t.Cols))
	}
	return nil
}

// rounded is x in a number format without blocks.
func rounded(f quant.Format, x float32) float32 {
	switch f {
	case quant.BF16, quant.F16:
		var b [2]byte
		if quant.Encode(f, b[:], []float32{x}) != nil {
			return x // beyond its range: the norm keeps it in floats
		}
		var y [1]float32
		quant.Decode(f, y[:], b[:])
		return y[0]
	}
	return x
}

// foldRows divides rows of the linear layer that makes the input, and its bias.
func (q *job) foldRows(m *maker, s []float32) error {
	w := m.rows.Weights[0]
	p, err := placeOf(w)
	if err != nil {
		return err
	}
	by := make([]float32, w.Out.Len())
	for c, r := range m.columns(len(s)) {
		by[r] = s[c]
	}
	x, t, err := q.floatsOf(p.tensor)
	if err != nil {
		return err
	}
	for r, row := range p.rows {
		for c := range t.Cols {
			x[row*t.Cols+c] /= by[r]
		}
	}
	q.dir.Replace(p.tensor, quant.FromFloats(x, t.Rows, t.Cols))
	for _, b := range m.rows.Weights[1:] {
		name, _, _ := vectorOf(b)
		x, t, err := q.floatsOf(name)
		if err != nil {
			return err
		}
		for i := range x {
			x[i] /= by[i]
		}
		q.keepFolded(name, quant.FromFloats(x, t.Rows, t.Cols))
	}
	return nil
}

// keepFolded puts a vector in the place of the file's.
func (q *job) keepFolded(name string, t quant.Tensor) {
	q.folded[name] = t
	q.dir.Replace(name, t)
}
