package model

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/adapter"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// heads is what the adapter has for a stack of a matrix for each head, which is made of one matrix: latent attention's kv_b_proj, of whose rows each head has
// some for its keys and some for its values. With the product B A of that matrix a head's values change by B_h A, where B_h is its rows of B, and
// its keys, whose matrix is turned for queries, by Aᵀ B_hᵀ.
func (x *adapting) heads(w *graph.Weight, name string, mod *adapter.Module) (*graph.LowRank, error) {
	if mod.Magnitude != nil || mod.Bias != nil || len(mod.Saved.Data) > 0 || len(mod.Base.Data) > 0 {
		return nil, fmt.Errorf("module %s has more than a product (DoRA, a bias, a saved matrix), which is not supported of matrices that are divided by head", name)
	}
	if len(mod.A.Data) == 0 || x.m.Arch.Recipe == nil {
		return nil, nil
	}
	r, n := x.m.Arch.Recipe(stem(w.Tensor), recipe.Tensor(theTensor), x.m.Config), w.Slots.Of.Matrices()
	turn, turned := r.(recipe.Transpose)
	if turned {
		r = turn.Of
	}
	open, err := recipe.Open(r, oneTensor(mod.B))
	if err != nil {
		return nil, fmt.Errorf("module %s: %w; the adapter is of another base", name, err)
	}
	parts, err := open.Parts(1)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", name, err)
	}
	rows := quant.FromFloats(parts[0].Floats(), parts[0].Rows, parts[0].Cols)
	l := &graph.LowRank{A: repeated(mod.A, n), B: rows, Scale: mod.Scale, Stack: n}
	if turned {
		l.A, l.B = eachTransposed(rows, n), repeated(eachTransposed(mod.A, 1), n)
	}
	if mod.A.Format == mod.B.Format { // the numbers are the file's
		if l.A, err = l.A.As(mod.A.Format); err == nil {
			l.B, err = l.B.As(mod.B.Format)
		}
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", name, err)
		}
	}
	return x.stacked(w, name, l)
}

// repeated is n copies of a matrix in F32, one below the other.
func repeated(t quant.Tensor, n int) quant.Tensor {
	var all []float32
	for range n {
		all = append(all, t.Floats()...)
	}
	return quant.FromFloats(all, n*t.Rows, t.Cols)
}
