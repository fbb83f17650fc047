package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// placed is a weight on the device, and the matrices it was placed from.
type placed struct {
	backend.Weight
	from []quant.Tensor
}

// place makes the graph's weights resident. A matrix that is in the file as the graph means it is handed over as the
// window into the file; only one that has to be made is copied.
func (p *Program) place(files Tensors) (map[*graph.Weight]placed, error) {
	all := map[*graph.Weight]placed{}
	for _, w := range p.Graph.Weights {
		var from []quant.Tensor
		if _, loads := p.dev.(backend.AdapterLoader); w.Slots != nil && !loads {
			return nil, fmt.Errorf("compile: device %s computes no LoRA adapters; leave out --lora, --lora-dir and --max-loras, or take the CPU", p.dev.Info().Name)
		}
		if w.Slots == nil {
			var err error
			if from, err = matrices(files, w); err != nil {
				return nil, err
			}
		}
		r, err := p.dev.Place(w, from)
		if err != nil {
			return nil, fmt.Errorf("compile: weight %s: %w", w.Name, err)
		}
		all[w] = placed{r, from}
	}
	return all, nil
}

// matrices are those of a weight, as its recipe makes them of the file.
func matrices(files Tensors, w *graph.Weight) ([]quant.Tensor, error) {
	if w.Recipe == nil {
		return nil, fmt.Errorf("compile: weight %s is of a model without a file; give the model's weights", w.Name)
	}
	m, err := recipe.Open(w.Recipe, files)
	if err != nil {
		return nil, fmt.Errorf("compile: weight %s: %w", w.Name, err)
	}
	n := w.Matrices()
	if rows, cols := n*w.Out.Len(), w.In.Len(); m.Rows != rows || m.Cols != cols {
		return nil, fmt.Errorf("compile: weight %s: %s is %s, and %d × %d is wanted", w.Name, w.Recipe, m.Shape, rows, cols)
	}
	return m.Parts(n)
}

// release releases the file's pages of a weight that a kernel has its own copy of, or has the weight do it once it has.
func (w placed) release(files Tensors) {
	if later, ok := w.Weight.(backend.DeferredUpload); ok {
		later.WhenCopied(files.Release)
		return
	}
	for _, t := range w.from {
		if w.Bytes() > 0 {
			files.Release(t.Data)
		}
	}
}
