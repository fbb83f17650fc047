package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Eagle is one decoder layer that drafts for a target from its hidden states, as EAGLE (arXiv:2401.15077) and EAGLE-3 (arXiv:2503.01840) train it and
// vLLM and SpecForge write it to Hugging Face folders. What its file lacks, the embedding or the output matrix, is the target's.
type Eagle struct {
	Three      bool  // it is EAGLE-3: of several layers' hidden states, and with a vocabulary of its own, which is a part of the target's
	Layers     []int // those whose inputs EAGLE-3 takes of the target
	DraftVocab int   // rows of its output matrix

	own            *Model
	target         *Model
	normedResidual bool // the residual is behind the norm of hidden states
}

// eagleArch is the layer's own part: a Llama decoder. Norms that stand before it have names of their own.
var eagleArch = Arch{
	Name:  "eagle",
	Read:  llama.Read,
	Names: map[string]string{"blk.N.hidden_norm": "model.layers.N.hidden_norm", "fc": "model.fc"},
}

// midlayer is a file whose layer is called so, as EAGLE-3's is, beside layers.0.
type midlayer struct{ Tensors }

func (f midlayer) Tensor(name string) (quant.Tensor, bool) {
	if t, ok := f.Tensors.Tensor(name); ok {
		return t, true
	}
	rest, ok := strings.CutPrefix(name, "layers.0.")
	if !ok {
		return quant.Tensor{}, false
	}
	return f.Tensors.Tensor("midlayer." + rest)
}

// OpenEagle reads a drafter's config.json, called name in errors, and finds its weights in files.
func OpenEagle(name string, config []byte, files Tensors, target *Model) (*Eagle, error) {
	f, err := hfFields(name, config, files)
	if err != nil {
		return nil, err
	}
	f.hf["num_hidden_layers"] = 1.0
	c := llama.Read(f)
	c.Tied = false // whatever it says: the file has an output matrix, or the target has
	c.check(f)
	e := &Eagle{target: target, DraftVocab: f.sizeOr("draft_vocab_size", "", c.Vocab), normedResidual: f.flag("norm_before_residual", false)}
	if f.err != nil {
		return nil, f.err
	}
	e.own = &Model{Arch: &eagleArch, Config: c, HF: true, files: midlayer{files}}
	if _, ok := e.own.tensor("fc.weight"); !ok {
		return nil, fmt.Errorf("model: the drafter of %s has no tensor fc.weight, which EAGLE layers have; give the folder of one", name)
	}
	_, e.Three = e.own.tensor("blk.0.hidden_norm.weight")
	t := target.Config
	switch {
	case c.Hidden != t.Hidden:
		return nil, fmt.Errorf("model: %s: its hidden size is %d and the model's %d; take the drafter that was trained for the model", name, c.Hidden, t.Hidden)
	case c.Vocab != t.Vocab:
		return nil, fmt.Errorf("model: %s: its vocabulary has %d tokens and the model's %d; take the drafter that was trained for the model", name, c.Vocab, t.Vocab)
	case e.DraftVocab < 1 || e.DraftVocab > c.Vocab:
		return nil, fmt.Errorf("model: %s: field draft_vocab_size is %d; 1 to %d are possible", name, e.DraftVocab, c.Vocab)
	case !e.Three:
		return e, nil
	}
	e.Layers = []int{2, t.Layers / 2, t.Layers - 3}
	if o := f.object("eagle_config"); o != nil {
		if list, ok := o["eagle_aux_hidden_state_layer_ids"].([]any); ok {
			e.Layers = nil
			for _, v := range list {
				n, ok := number(v)
				if !ok || !(n >= 0 && n < float64(t.Layers)) || n != math.Trunc(n) {
					return nil, fmt.Errorf("model: %s: eagle_aux_hidden_state_layer_ids in eagle_config has the entry %v; numbers of the model's layers, 0 to %d, are wanted", name, v, t.Layers-1)
				}
				e.Layers = append(e.Layers, int(n))
			}
		}
	}
	if len(e.Layers) == 0 || slices.Min(e.Layers) < 0 || slices.Max(e.Layers) >= t.Layers {
		return nil, fmt.Errorf("model: %s: it goes on from the inputs of layers %d of a model with %d layers; eagle_aux_hidden_state_layer_ids in eagle_config says which", name, e.Layers, t.Layers)
	}
	return e, nil
}

// Lookup implements graph.Lookup: the drafter's own weights, and the target's embedding and output matrix.
func (e *Eagle) Lookup(name string) (graph.Stored, bool) {
	if s, ok := e.own.Lookup(name); ok {
		return s, true
	}
	switch name {
	case "output.weight":
		if s, ok := e.target.Lookup(name); ok {
			return s, true
		}
		return e.target.Lookup("token_embd.weight")
	case "token_embd.weight":
		return e.target.Lookup(name)
	}
	return graph.Stored{}, false
}

// Tensor implements recipe.Tensors for what Lookup gives.
func (e *Eagle) Tensor(name string) (quant.Tensor, bool) {
	if t, ok := e.own.files.Tensor(name); ok {
		return t, true
	}
	return e.target.files.Tensor(name)
}

// Bytes gives a tensor of any dtype, for recipes that unpack.
func (e *Eagle) Bytes(name string) (recipe.Raw, bool) {
	for _, f := range []Tensors{e.own.files.(midlayer).Tensors, e.target.files} {
		if b, ok := f.(interface {
			Bytes(name string) (recipe.Raw, bool)
		}); ok {
			if raw, ok := b.Bytes(name); ok {
				return raw, true
			}
		}
	}
	return recipe.Raw{}, false
}
