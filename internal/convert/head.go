package convert

import (
	"fmt"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// rankPooling is llama.cpp's number for models that compare texts.
const rankPooling = uint32(4)

// addHead adds the head of a model that compares texts, under llama.cpp's names.
func addHead(f *file, b *modeldir.Dir) error {
	dense, out := b.HeadLayers()
	if out == "" || !b.Model.Config.Encoder {
		return nil
	}
	h, err := b.Head()
	if err != nil {
		return err
	}
	if h.Sigmoid != (h.Labels == 1) {
		return fmt.Errorf("convert: %s: config.json says how scores are written, and GGUF has no key for it; serve the directory", b.Source.Path)
	}
	layers := map[string]string{"cls": out}
	if dense != "" {
		layers = map[string]string{"cls": dense, "cls.output": out}
	}
	for _, to := range []string{"cls", "cls.output"} {
		for _, kind := range []string{".weight", ".bias"} {
			from := layers[to] + kind
			q, ok := b.Tensor(from)
			if !ok {
				continue // there is no such layer, or it has no bias
			}
			shape := []int{q.Rows, q.Cols}
			if q.Rows == 1 {
				shape = shape[1:]
			}
			t, err := exported(b, model.Exported{Name: to + kind, Shape: shape, Format: q.Format, Recipe: recipe.Tensor(from)})
			if err != nil {
				return err
			}
			f.tensors = append(f.tensors, t)
		}
	}
	f.meta[b.Model.Arch.Name+".pooling_type"] = rankPooling
	return nil
}
