package model

import (
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/adapter"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// What adapters have for stacks of experts comes in three forms: GGUF's stacks, PEFT's products of each expert's modules, and PEFT's products of a parameter
// that holds all experts (target_parameters).

// experts is what the adapter has for a stack of experts' matrices; nil: nothing. mod is what it has under the stack's own name.
func (x *adapting) experts(w *graph.Weight, name string, mod *adapter.Module) (*graph.LowRank, error) {
	n := w.Slots.Of.Matrices()
	if mod != nil && x.a.Kind == weights.GGUF {
		if x.export != nil || mod.Experts != n {
			return nil, fmt.Errorf("module %s has products of %d experts; the model has %d, and must be a GGUF file as the adapter is", name, mod.Experts, n)
		}
		return x.stacked(w, name, &graph.LowRank{A: mod.A, B: mod.B, Scale: mod.Scale, Stack: n})
	}
	block, _ := strings.CutSuffix(w.Tensor, "_exps.weight")
	modules, names := make([]*adapter.Module, n), make([]string, n)
	found := false
	for e := range n {
		names[e], modules[e] = x.module(fmt.Sprintf("%s.%d.weight", block, e))
		found = found || modules[e] != nil
	}
	if found {
		return x.eachExpert(w, names, modules)
	}
	return x.parameter(w, block)
}

// stacked checks the sizes of a product of all experts.
func (x *adapting) stacked(w *graph.Weight, name string, l *graph.LowRank) (*graph.LowRank, error) {
	if l.B.Cols > w.Slots.Rank {
		return nil, fmt.Errorf("module %s has rank %d, above the bound of %d; raise --max-lora-rank", name, l.B.Cols, w.Slots.Rank)
	}
	if err := x.fits(w, name, l.A.Cols, w.In.Len()); err != nil {
		return nil, err
	}
	return l, x.fits(w, name, l.B.Rows, l.Stack*w.Out.Len())
}

// eachExpert joins products of the experts' modules, which may have other ranks and scales, and which some experts may lack.
func (x *adapting) eachExpert(w *graph.Weight, names []string, modules []*adapter.Module) (*graph.LowRank, error) {
	rank, out, in := 0, w.Out.Len(), w.In.Len()
	for e, m := range modules {
		if m == nil {
			continue
		}
		if m.Magnitude != nil || m.Bias != nil || len(m.Saved.Data) > 0 || len(m.Base.Data) > 0 {
			return nil, fmt.Errorf("module %s has more than a product (DoRA, a bias, a saved matrix), which is not supported of experts", names[e])
		}
		if err := x.fits(w, names[e], m.A.Cols, in); err != nil {
			return nil, err
		}
		if err := x.fits(w, names[e], m.B.Rows, out); err != nil {
			return nil, err
		}
		rank = max(rank, m.B.Cols)
	}
	a, b := make([]float32, len(modules)*rank*in), make([]float32, len(modules)*out*rank)
	for e, m := range modules {
		if m == nil {
			continue
		}
		copy(a[e*rank*in:], m.A.Floats())
		second := m.B.Floats()
		for o := range out {
			for j := range m.B.Cols {
				b[(e*out+o)*rank+j] = m.Scale * second[o*m.B.Cols+j]
			}
		}
	}
	l := &graph.LowRank{A: quant.FromFloats(a, len(modules)*rank, in), B: quant.FromFloats(b, len(modules)*out, rank), Scale: 1, Stack: len(modules)}
	return x.stacked(w, names[0], l)
}

// parameter is what the adapter has for a parameter that holds all experts' matrices, [experts, d1, d2]. PEFT makes A [experts × rank, d1] and B [d2, rank ×
// experts], the rank before the expert in B's columns, and adds
//
//	delta[e, i, o] = Scale · Σ_r A[e, r, i] · B[o, r, e]
//
// or, where the parameter has its outputs first, in later versions A [experts × rank, d2] and B [d1, rank × experts].
func (x *adapting) parameter(w *graph.Weight, block string) (*graph.LowRank, error) {
	r, modules, outputs := x.parameterRecipe(w, block)
	_, turned := r.(recipe.Transpose)
	n, d1, d2 := w.Slots.Of.Matrices(), outputs, w.In.Len()
	if turned {
		d1, d2 = d2, d1
	}
	for _, module := range modules {
		name, m, swapped := x.wrapped(module, d1, d2)
		switch {
		case m == nil:
			continue
		case d1 == d2 && !turned && !x.a.Config.OutputsFirst():
			return nil, fmt.Errorf("module %s: its parameter has as many inputs as outputs, %d, and peft_version %q does not tell which of PEFT's two layouts the file has, as 0.19.1 and later do; save the adapter with such a version", name, d1, x.a.Config.PEFT)
		case m.Experts != n:
			return nil, fmt.Errorf("module %s has products of %d experts, and the model has %d; the adapter is of another base", name, m.Experts, n)
		}
		left, right := factors(m, swapped || d1 == d2 && !turned)
		a, b := right, left
		if turned { // left · right, of which each matrix is transposed
			a, b = eachTransposed(left, n), right
		}
		open, err := recipe.Open(r, oneTensor(b))
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", name, err)
		}
		parts, err := open.Parts(1)
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", name, err)
		}
		l := &graph.LowRank{A: a, B: parts[0], Scale: m.Scale, Stack: n}
		if m.A.Format == m.B.Format { // the numbers are the file's
			if l.A, err = l.A.As(m.A.Format); err == nil {
				l.B, err = l.B.As(m.B.Format)
			}
			if err != nil {
				return nil, fmt.Errorf("module %s: %w", name, err)
			}
		}
		return x.stacked(w, name, l)
	}
	return nil, nil
}

// parameterRecipe is how the stack is made of the parameter of transformers' module that holds it, what that module may be called, and how many outputs
// the parameter has. Gates and ups are one parameter; what has no name as a stack in files lies as transformers 5 holds it, with outputs first and the gates
// before the ups.
func (x *adapting) parameterRecipe(w *graph.Weight, block string) (r recipe.Recipe, modules []string, outputs int) {
	n, out := w.Slots.Of.Matrices(), w.Out.Len()
	kind := strings.TrimPrefix(block[strings.LastIndexByte(block, '.'):], ".ffn_")
	if outputs = 2 * out; kind == "down" {
		outputs = out
	}
	for _, name := range x.m.hfNames(w.Tensor) {
		modules = append(modules, name[:strings.LastIndexByte(name, '.')])
	}
	r = recipe.Tensor(theTensor)
	if len(modules) > 0 {
		if x.m.Arch.Recipe != nil {
			r = x.m.Arch.Recipe(stem(w.Tensor), r, x.m.Config)
		}
		return r, modules, outputs
	}
	for _, name := range x.m.hfNames(block + ".0.weight") {
		if module, _, ok := strings.Cut(name, ".experts.0."); ok {
			modules = append(modules, module+".experts", strings.Replace(module, ".block_sparse_moe", ".mlp", 1)+".experts")
		}
	}
	switch kind {
	case "gate":
		r = recipe.RowsOfEach{Of: r, Count: n, From: 0, To: out}
	case "up":
		r = recipe.RowsOfEach{Of: r, Count: n, From: out, To: 2 * out}
	}
	return r, modules, outputs
}

// wrapped is the product of a module's parameter of this shape: see adapter.Module.Experts. swapped says that A is of the second dimension.
func (x *adapting) wrapped(module string, d1, d2 int) (name string, m *adapter.Module, swapped bool) {
	for name = module; x.a.Modules[name] != nil; name += ".base_layer" {
		switch m = x.a.Modules[name]; {
		case m.Experts == 0:
		case m.A.Cols == d1 && m.B.Rows == d2:
			x.used[name] = true
			return name, m, false
		case m.A.Cols == d2 && m.B.Rows == d1:
			x.used[name] = true
			return name, m, true
		}
	}
	return "", nil, false
}

// factors are the matrices of delta[e] = left[e] · right[e], one expert's below the other's.
func factors(m *adapter.Module, swapped bool) (left, right quant.Tensor) {
	n, rank := m.Experts, m.B.Cols/m.Experts
	a, b := m.A.Floats(), m.B.Floats()
	second := make([]float32, len(b)) // [experts, rank, outputs of B]
	for o := range m.B.Rows {
		for e := range n {
			for j := range rank {
				second[(e*rank+j)*m.B.Rows+o] = b[o*n*rank+j*n+e]
			}
		}
	}
	first, other := quant.FromFloats(a, n*rank, m.A.Cols), quant.FromFloats(second, n*rank, m.B.Rows)
	if swapped {
		return eachTransposed(other, n), first
	}
	return eachTransposed(first, n), other
}

// eachTransposed transposes each of n matrices that lie one below the other.
func eachTransposed(t quant.Tensor, n int) quant.Tensor {
	from, to, rows := t.Floats(), make([]float32, t.Rows*t.Cols), t.Rows/n
	for e := range n {
		for r := range rows {
			for c := range t.Cols {
				to[(e*t.Cols+c)*rows+r] = from[(e*rows+r)*t.Cols+c]
			}
		}
	}
	return quant.FromFloats(to, n*t.Cols, rows)
}
