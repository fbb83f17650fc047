package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/adapter"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Adapt finds out what an adapter has for the weights with slots of a graph of this model. What it asks for and the graph lacks is an
// error that names it. Matrices are windows into the adapter's file where they lie there as the graph means them.
func (m *Model) Adapt(a *adapter.Adapter, slots []*graph.Weight) (map[*graph.Weight]*graph.LowRank, error) {
	if a.Arch != "" && a.Arch != m.Arch.Name && a.Arch != m.Arch.Moe {
		return nil, fmt.Errorf("model: adapter %s is for the architecture %s and the model is %s", a.Path, a.Arch, m.Arch.Name)
	}
	x := &adapting{m: m, a: a, used: map[string]bool{}}
	if a.Kind == weights.GGUF && m.HF {
		e, err := m.Export()
		if err != nil {
			return nil, fmt.Errorf("model: adapter %s is in GGUF's form and the model is not: %w", a.Path, err)
		}
		x.export = e
	}
	all := map[*graph.Weight]*graph.LowRank{}
	for _, w := range slots {
		l, err := x.weight(w)
		if err != nil {
			return nil, fmt.Errorf("model: adapter %s: %w", a.Path, err)
		}
		if l != nil {
			all[w] = l
		}
	}
	for _, name := range a.Names() {
		if !x.used[name] {
			return nil, fmt.Errorf("model: adapter %s changes module %s, which is no matrix of this model that adapters can change", a.Path, name)
		}
	}
	return all, nil
}

// adapting is an adapter while it is fitted to a model.
type adapting struct {
	m      *Model
	a      *adapter.Adapter
	used   map[string]bool
	export *Export // the model in GGUF's form, where the adapter is in it and the model is not
}

// names is what the adapter may call the module of a tensor.
func (x *adapting) names(tensor string) []string {
	if x.a.Kind == weights.GGUF {
		return []string{tensor}
	}
	var names []string
	for _, n := range x.m.hfNames(tensor) {
		names = append(names, strings.TrimSuffix(n, ".weight"))
	}
	return names
}

// module is what the adapter has for a tensor; nil: nothing.
func (x *adapting) module(tensor string) (string, *adapter.Module) {
	for _, n := range x.names(tensor) {
		if mod := x.a.Modules[n]; mod != nil {
			x.used[n] = true
			return n, mod
		}
	}
	return "", nil
}

// The embeddings and the head, in GGUF's naming.
const (
	embeddingTensor = "token_embd.weight"
	headTensor      = "output.weight"
)

// weight is what the adapter has for a weight with slots; nil: nothing.
func (x *adapting) weight(w *graph.Weight) (*graph.LowRank, error) {
	name, mod := x.module(w.Tensor)
	if w.Slots.Of.Stack != (graph.Axis{}) {
		if mod != nil && mod.Experts == 0 && x.a.Kind == weights.HuggingFace {
			return x.heads(w, name, mod)
		}
		return x.experts(w, name, mod)
	}
	if err := x.missing(w, mod); err != nil {
		return nil, err
	}
	if w.Tensor == headTensor && x.m.Config.Tied { // PEFT ties trained rows as the model ties its weights
		if _, e := x.module(embeddingTensor); e != nil && len(e.Rows.Data) > 0 {
			if mod != nil {
				return nil, fmt.Errorf("module %s is changed beside trained tokens that it shares; that is not supported", name)
			}
			return &graph.LowRank{Rows: e.Rows, Indices: e.Tokens}, x.fits(w, name, e.Rows.Cols, w.In.Len())
		}
	}
	if mod == nil {
		return nil, nil
	}
	if mod.Experts > 1 {
		return nil, fmt.Errorf("module %s has products of %d matrices, and the model has one there", name, mod.Experts)
	}
	if mod.Table != w.Slots.Table && (mod.Table || len(mod.Saved.Data) == 0) {
		return nil, fmt.Errorf("module %s is changed as %s, and the model has it as %s", name, kindOf(mod.Table), kindOf(w.Slots.Table))
	}
	l := &graph.LowRank{Scale: mod.Scale, Rows: mod.Rows, Indices: mod.Tokens}
	if err := x.product(w, name, mod, l); err != nil {
		return nil, err
	}
	if err := x.saved(w, name, mod, l); err != nil {
		return nil, err
	}
	if err := x.columns(w, name, mod, l); err != nil {
		return nil, err
	}
	return l, x.shard(w, l)
}

func kindOf(table bool) string {
	if table {
		return "a table of embeddings"
	}
	return "a matrix"
}

// missing says that the adapter's configuration asks for a product that its file lacks.
func (x *adapting) missing(w *graph.Weight, mod *adapter.Module) error {
	if x.a.Config == nil || mod != nil && len(mod.A.Data) > 0 {
		return nil
	}
	names := x.names(w.Tensor)
	if len(names) > 0 && x.a.Config.Targets(names[0], !w.Slots.Table && w.Tensor != headTensor) {
		return fmt.Errorf("target_modules names module %s and the file has no tensors for it", names[0])
	}
	return nil
}

// fits compares a size of the adapter's with the model's.
func (x *adapting) fits(w *graph.Weight, name string, got, want int) error {
	if got != want {
		return fmt.Errorf("module %s is for a matrix with %d where the model's %s has %d; the adapter is of another base", name, got, w.Slots.Of.Name, want)
	}
	return nil
}

// product sets the two matrices.
func (x *adapting) product(w *graph.Weight, name string, mod *adapter.Module, l *graph.LowRank) error {
	if len(mod.A.Data) == 0 {
		return nil
	}
	if rank := mod.B.Cols; rank > w.Slots.Rank {
		return fmt.Errorf("module %s has rank %d, above the bound of %d; raise --max-lora-rank", name, rank, w.Slots.Rank)
	}
	l.A, l.B = mod.A, mod.B
	if w.Slots.Table {
		if err := x.fits(w, name, mod.B.Rows, w.In.Len()); err != nil {
			return err
		}
		return x.fits(w, name, mod.A.Rows, w.Out.Len())
	}
	of := x.wholeWeight(w)
	if err := x.fits(w, name, mod.A.Cols, of.cols); err != nil {
		return err
	}
	var err error
	l.B, err = x.made(w, name, mod.B, w.Tensor, false)
	if err == nil && mod.Bias != nil {
		if l.Bias, err = x.numbers(w, name, mod.Bias); err == nil {
			for i := range l.Bias {
				l.Bias[i] *= mod.Scale
			}
		}
	}
	return err
}

// saved sets the matrix that takes the place of the model's.
func (x *adapting) saved(w *graph.Weight, name string, mod *adapter.Module, l *graph.LowRank) error {
	t := mod.Saved
	if len(t.Data) == 0 && len(mod.Base.Data) > 0 {
		same, err := x.isBase(w, mod.Base)
		if err != nil || same {
			return err
		}
		t = mod.Base
	}
	if len(t.Data) == 0 {
		return nil
	}
	if len(l.Rows.Data) > 0 {
		return fmt.Errorf("module %s has both a matrix of its own and trained tokens; that is not supported", name)
	}
	if w.Slots.Table {
		l.Rows = t
		if err := x.fits(w, name, t.Cols, w.In.Len()); err != nil {
			return err
		}
		return x.fits(w, name, t.Rows, w.Out.Len())
	}
	var err error
	if l.Rows, err = x.made(w, name, t, w.Tensor, true); err != nil {
		return err
	}
	if err := x.fits(w, name, l.Rows.Cols, x.wholeWeight(w).cols); err != nil {
		return err
	}
	switch {
	case mod.SavedBias != nil:
		l.Bias, err = x.numbers(w, name, mod.SavedBias)
	case w.Slots.Bias != nil:
		l.Bias, err = x.m.vector(w.Slots.Bias)
	}
	return err
}

// isBase reports whether a matrix of the file is the model's own, so that it need not be kept.
func (x *adapting) isBase(w *graph.Weight, t quant.Tensor) (bool, error) {
	base, err := recipe.Open(w.Slots.Of.Recipe, x.m.files)
	if err != nil {
		return false, err
	}
	if base.Rows != t.Rows || base.Cols != t.Cols {
		return false, nil
	}
	mine, own, buf := make([]float32, t.Cols), make([]float32, t.Cols), make([]byte, base.Format.RowBytes(base.Cols))
	for r := range t.Rows {
		quant.Decode(t.Format, mine, t.Row(r))
		quant.Decode(base.Format, own, base.Read(buf, r, r+1))
		if !slices.Equal(mine, own) {
			return false, nil
		}
	}
	return true, nil
}

// columns sets what DoRA multiplies results by: the magnitude over the norm of each row of W + Scale·BA.
func (x *adapting) columns(w *graph.Weight, name string, mod *adapter.Module, l *graph.LowRank) error {
	if mod.Magnitude == nil {
		return nil
	}
	magnitude, err := x.numbers(w, name, mod.Magnitude)
	if err != nil {
		return err
	}
	of := x.wholeWeight(w)
	base, err := recipe.Open(of.recipe, x.m.files)
	if err != nil {
		return err
	}
	norms := rowNorms(base, l)
	scaled := l.B.Floats()
	rank := l.B.Cols
	l.Columns = make([]float32, len(magnitude))
	for o, norm := range norms {
		c := float32(float64(magnitude[o]) / norm)
		if norm == 0 || math.IsInf(float64(c), 0) {
			return fmt.Errorf("module %s: row %d of the matrix with the product added is zero, so DoRA is not defined", name, o)
		}
		l.Columns[o] = c
		for j := range rank {
			scaled[o*rank+j] *= c
		}
		if l.Bias != nil {
			l.Bias[o] *= c
		}
	}
	l.B = quant.FromFloats(scaled, l.B.Rows, rank)
	if w.Slots.Bias == nil {
		return nil
	}
	bias, err := x.m.vector(w.Slots.Bias) // the magnitude is of the product alone
	if err != nil {
		return err
	}
	if l.Bias == nil {
		l.Bias = make([]float32, len(bias))
	}
	for o, b := range bias {
		l.Bias[o] += (1 - l.Columns[o]) * b
	}
	return nil
}
