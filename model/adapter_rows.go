package model

import (
	"fmt"
	"math"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// oneTensor is a file with one tensor, theTensor.
type oneTensor quant.Tensor

const theTensor = "tensor"

// Tensor implements recipe.Tensors.
func (t oneTensor) Tensor(name string) (quant.Tensor, bool) {
	return quant.Tensor(t), name == theTensor
}

// wholeMatrix is a weight before it was cut for several devices.
type wholeMatrix struct {
	recipe     recipe.Recipe
	rows, cols int
	cut        *recipe.Slice // nil: it is not cut
	picked     []int         // rows that are left where they are of several lists of heads; nil: those of cut
}

func (x *adapting) wholeWeight(w *graph.Weight) wholeMatrix {
	of := w.Slots.Of
	s, ok := of.Recipe.(recipe.Slice)
	var picked []int
	if p, heads := of.Recipe.(recipe.Permute); heads && of.Out.Shards > 0 {
		s, picked, ok = recipe.Slice{Of: p.Of, Count: 1, Matrices: 1, Rows: len(p.Index), Cols: of.In.Len()}, p.Index, true
	}
	if !ok || of.Out.Shards == 0 && of.In.Shards == 0 {
		return wholeMatrix{recipe: of.Recipe, rows: of.Out.Len(), cols: of.In.Len()}
	}
	whole := wholeMatrix{s.Of, s.Rows, s.Cols, &s, picked}
	if m, err := recipe.Open(s.Of, x.m.files); err == nil {
		whole.rows, whole.cols = m.Rows, m.Cols
	}
	return whole
}

// numbers is made of a vector with a number for each of the module's outputs.
func (x *adapting) numbers(w *graph.Weight, name string, v []float32) ([]float32, error) {
	t, err := x.made(w, name, quant.FromFloats(v, 1, len(v)), strings.TrimSuffix(w.Tensor, ".weight")+".bias", false)
	if err != nil {
		return nil, err
	}
	return t.Floats(), nil
}

// made makes of a tensor in the order of the adapter's file what the weight has of it: what the architecture's recipe makes of the rows of
// its files, in the order of this kind of file, and of these the weight's part. whole says that the tensor is stored as the base's are, and
// may have to be transposed; products never are.
func (x *adapting) made(w *graph.Weight, name string, t quant.Tensor, tensor string, whole bool) (quant.Tensor, error) {
	var r recipe.Recipe = recipe.Tensor(theTensor)
	m := x.m
	if x.otherHeads(w.Tensor) {
		return t, fmt.Errorf("module %s: the value heads of gated delta layers are in another order in GGUF files than in Hugging Face's, and the model is of one kind and the adapter of the other; take a model of the adapter's kind", name)
	}
	if x.a.Kind != weights.GGUF && m.Arch.Recipe != nil {
		r = m.Arch.Recipe(stem(tensor), r, m.Config)
		if turn, ok := r.(recipe.Transpose); ok && !whole {
			r = turn.Of
		}
	}
	n := t.Rows
	if n == 1 {
		n = t.Cols
	}
	if index := x.order(w.Tensor, n); index != nil {
		r = recipe.Permute{Of: r, Index: index}
	}
	out := x.wholeWeight(w).rows
	if w.From > 0 || n > out {
		if stored, _ := m.Lookup(w.Slots.Of.Tensor); stored.Rows > 1 && stored.Rows != n && !whole {
			return t, x.fits(w, name, n, stored.Rows)
		}
		r = recipe.Rows{Of: r, From: w.From, To: w.From + out}
	}
	if r == recipe.Recipe(recipe.Tensor(theTensor)) {
		return t, x.fits(w, name, n, out)
	}
	open, err := recipe.Open(r, oneTensor(t))
	if err != nil {
		return t, fmt.Errorf("module %s: %w", name, err)
	}
	parts, err := open.Parts(1)
	if err != nil {
		return t, fmt.Errorf("module %s: %w", name, err)
	}
	if n = parts[0].Rows; n == 1 && out > 1 {
		n = parts[0].Cols
	}
	return parts[0], x.fits(w, name, n, out)
}

// order is the order in which the model's file has rows that the adapter's has in another; nil: they have the same. See Model.interleave.
func (x *adapting) order(tensor string, n int) []int {
	m := x.m
	if x.a.Kind == weights.GGUF {
		if x.export == nil {
			return nil
		}
		for _, e := range x.export.Tensors {
			if p, ok := e.Recipe.(recipe.Permute); ok && e.Name == tensor && len(p.Index) == n {
				back := make([]int, n)
				for i, from := range p.Index {
					back[from] = i
				}
				return back
			}
		}
		return nil
	}
	r := m.Config.Rotation
	if m.HF || r == nil || r.Pairing != graph.AdjacentPairs {
		return nil
	}
	switch stem(tensor) {
	case "blk.N.attn_q.weight", "blk.N.attn_k.weight":
		return interleaved(n, m.Config.HeadDim, r.Dim)
	}
	return nil
}

// otherHeads reports whether the adapter and the model's file have the value heads of a gated delta layer's tensor in different orders. See Model.tile.
func (x *adapting) otherHeads(tensor string) bool {
	c := x.m.Config
	of := x.a.Kind == weights.GGUF
	if c.Delta.KeyHeads == 0 || c.Delta.KeyHeads == c.Delta.ValueHeads || of != x.m.HF || x.m.Arch == &qwen3next {
		return false
	}
	switch stem(tensor) {
	case "blk.N.attn_qkv.weight", "blk.N.attn_gate.weight", "blk.N.ssm_alpha.weight", "blk.N.ssm_beta.weight", "blk.N.ssm_out.weight":
		return true
	}
	return false
}

// shard cuts what the adapter has for a whole matrix as the weight is cut for several devices.
func (x *adapting) shard(w *graph.Weight, l *graph.LowRank) error {
	whole := x.wholeWeight(w)
	cut := whole.cut
	if cut == nil {
		return nil
	}
	_, columns := cut.Of.(recipe.PermuteColumns)
	if w.Slots.Table || len(l.Indices) > 0 {
		return fmt.Errorf("weight %s is divided over devices, and the adapter changes some of its rows; that is not supported", w.Slots.Of.Name)
	}
	if columns && w.Slots.Of.In.Shards > 0 {
		return fmt.Errorf("weight %s is divided over devices by heads that lie apart in its rows, and an adapter changes it; that is not supported: take the model's files of Hugging Face, or one device", w.Slots.Of.Name)
	}
	slice := func(t quant.Tensor, rows, cols bool) (quant.Tensor, error) {
		if len(t.Data) == 0 {
			return t, nil
		}
		s := recipe.Slice{Of: recipe.Tensor(theTensor), Count: 1, Matrices: 1, Rows: t.Rows, Cols: t.Cols}
		if rows {
			s.Row, s.Rows = cut.Row, cut.Rows
		}
		if cols {
			s.Col, s.Cols = cut.Col, cut.Cols
		}
		if rows && whole.picked != nil {
			s.Of, s.Row, s.Rows = recipe.Permute{Of: s.Of, Index: whole.picked}, 0, len(whole.picked)
		}
		m, err := recipe.Open(s, oneTensor(t))
		if err != nil {
			return t, err
		}
		parts, err := m.Parts(1)
		if err != nil {
			return t, err
		}
		return parts[0], nil
	}
	var err error
	if l.A, err = slice(l.A, false, true); err != nil {
		return err
	}
	if l.B, err = slice(l.B, true, false); err != nil {
		return err
	}
	if l.Rows, err = slice(l.Rows, true, true); err != nil {
		return err
	}
	part := func(v []float32) []float32 {
		if v == nil {
			return nil
		}
		p := make([]float32, cut.Rows)
		copy(p, v[min(cut.Row, len(v)):])
		for i, row := range whole.picked {
			p[i] = v[row]
		}
		return p
	}
	l.Columns, l.Bias = part(l.Columns), part(l.Bias)
	if cut.Col > 0 { // of summands only the first device's has it
		l.Bias = nil
	}
	return nil
}

// rowNorms is the norm of each row of base + Scale·BA, by all cores.
func rowNorms(base *recipe.Matrix, l *graph.LowRank) []float64 {
	a, b := l.A.Floats(), l.B.Floats()
	rank, in := l.B.Cols, base.Cols
	norms := make([]float64, base.Rows)
	var work errgroup.Group
	n := min(runtime.GOMAXPROCS(0), base.Rows)
	for i := range n {
		work.Go(func() error {
			row, buf := make([]float32, in), make([]byte, base.Format.RowBytes(in))
			for o := base.Rows * i / n; o < base.Rows*(i+1)/n; o++ {
				quant.Decode(base.Format, row, base.Read(buf, o, o+1))
				for j := range rank {
					f := l.Scale * b[o*rank+j]
					for k, x := range a[j*in : (j+1)*in] {
						row[k] += f * x
					}
				}
				var sum float64
				for _, x := range row {
					sum += float64(x) * float64(x)
				}
				norms[o] = math.Sqrt(sum)
			}
			return nil
		})
	}
	_ = work.Wait() // none of them fails
	return norms
}

// vector reads a weight of one row.
func (m *Model) vector(w *graph.Weight) ([]float32, error) {
	r, err := recipe.Open(w.Recipe, m.files)
	if err != nil {
		return nil, err
	}
	parts, err := r.Parts(1)
	if err != nil {
		return nil, err
	}
	return parts[0].Floats(), nil
}
