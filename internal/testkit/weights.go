// Package testkit makes small random models and compares devices; only tests use it.
package testkit

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Weights are random tensors for a graph that was built with Lookup: whatever it asked for exists.
type Weights map[string]quant.Tensor

// Lookup is a graph.Lookup that has every weight. A name may say its format after a slash, "w/Q4_0"; others are F32.
func Lookup(name string) (graph.Stored, bool) {
	f := graph.Stored{Format: quant.F32, Recipe: recipe.Tensor(name)}
	if _, format, ok := strings.Cut(name, "/"); ok {
		if named, err := quant.Parse(format); err == nil {
			f.Format = named
		}
	}
	return f, true
}

// RandomWeights makes the tensors of a graph: norms near one, decays near minus one, strong ones near minus six, embeddings of unit size, matrices that keep the size of
// what they multiply. What adapters fill has no tensor: its Tensor names the matrix that adapters change.
func RandomWeights(g *graph.Graph, seed uint64) (Weights, error) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	all := Weights{}
	for _, w := range g.Weights {
		if w.Slots != nil {
			continue
		}
		rows, cols := w.Matrices()*w.Out.Len(), w.In.Len()
		x := make([]float32, rows*cols)
		mean, size := float32(0), float32(1)
		switch {
		case strings.Contains(w.Name, "strong_decay"):
			mean, size = -6, 0.6
		case strings.Contains(w.Name, "decay"):
			mean, size = -1, 0.1
		case w.Out.Len() == 1:
			mean, size = 1, 0.1
		case !strings.Contains(w.Name, "embd"):
			size = float32(1 / math.Sqrt(float64(cols)))
		}
		for i := range x {
			x[i] = mean + size*float32(rnd.NormFloat64())
		}
		t, err := quant.Tensor{Format: w.Format, Rows: rows, Cols: cols, Data: make([]byte, int64(rows)*w.Format.RowBytes(cols))}, error(nil)
		if w.Format.Descriptor().CodeGroup > 0 {
			RandomBlocks(rnd, w.Format, t.Data)
			all[w.Tensor] = t
			continue
		}
		for r := 0; r < rows && err == nil; r++ {
			err = quant.Encode(w.Format, t.Row(r), x[r*cols:(r+1)*cols])
		}
		if err != nil {
			return nil, err
		}
		all[w.Tensor] = t
	}
	return all, nil
}

// Tensor implements plan.Tensors.
func (w Weights) Tensor(name string) (quant.Tensor, bool) {
	t, ok := w[name]
	return t, ok
}

// Release implements plan.Tensors.
func (w Weights) Release([]byte) {}
