package convert

import (
	"fmt"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
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

// poolings are llama.cpp's numbers for how a text's hidden states become one vector.
var poolings = map[string]uint32{"mean": 1, "cls": 2, "last": 3}

// addPooling adds how the model's authors make embeddings: what is pooled, and the layers behind that, under llama.cpp's names.
func addPooling(f *file, b *modeldir.Dir) error {
	how, err := b.Pooling()
	if err != nil || how == "" && !b.Model.Config.Encoder {
		return err
	}
	arch := b.Model.Arch.Name
	if _, ranks := f.meta[arch+".pooling_type"]; !ranks && how != "" {
		f.meta[arch+".pooling_type"] = poolings[how]
	}
	layers, err := b.Dense()
	if err != nil || len(layers) == 0 {
		return err
	}
	if arch != model.GemmaEmbedding || len(layers) != 2 || layers[1].Out() != b.Model.Config.Hidden {
		return fmt.Errorf("convert: %s: embeddings go through %d layers behind pooling, and GGUF has room for two of %s that end in the model's own width; serve the directory", b.Source.Path, len(layers), model.GemmaEmbedding)
	}
	for i, l := range layers {
		if l.Biased || l.Tanh {
			return fmt.Errorf("convert: %s: %s has a bias or goes through tanh, and GGUF has no key for it; serve the directory", b.Source.Path, l.Name)
		}
		name := fmt.Sprintf("dense_%d", i+2)
		f.meta[arch+"."+name+"_feat_in"], f.meta[arch+"."+name+"_feat_out"] = uint32(l.In()), uint32(l.Out())
		t := inGGUF(model.Exported{Name: name + ".weight", Shape: []int{l.Out(), l.In()}, Format: quant.F32})
		all, row := constant(l.Matrix)(nil, 0, 0), quant.F32.RowBytes(l.In())
		t.rows = func(_ []byte, from, to int) []byte { return all[int64(from)*row : int64(to)*row] }
		f.tensors = append(f.tensors, t)
	}
	return nil
}
