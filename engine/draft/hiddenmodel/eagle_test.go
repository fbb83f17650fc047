package hiddenmodel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
)

// draftVocab is the tokens that an EAGLE-3 layer knows: every other one of the target's.
const draftVocab = vocab / 2

// eagle is a row of EAGLE's layer.
func (f *formula) eagle(token int32, before []float64, position int) (logits, next []float64) {
	x := append(f.files.row("model.embed_tokens.weight", int(token)), before...)
	x = f.files.times("fc.weight", x)
	next = f.block(x, x, position)
	return f.files.times("lm_head.weight", next), next
}

// eagle3 is a row of EAGLE-3's layer; rows of the target's are brought to one by fc before.
func (f *formula) eagle3(token int32, before []float64, position int) (logits, next []float64) {
	if len(before) == 3*hidden {
		before = f.files.times("fc.weight", before)
	}
	x := append(f.files.norm(f.layer+".input_layernorm.weight", f.files.row("model.embed_tokens.weight", int(token))), f.files.norm(f.layer+".hidden_norm.weight", before)...)
	next = f.block(x, before, position)
	logits = make([]float64, vocab)
	for i := range logits {
		logits[i] = math.Inf(-1)
	}
	for i, y := range f.files.times("draft_head.weight", f.files.norm("norm.weight", next)) {
		logits[2*i] = y
	}
	return logits, next
}

// rename is a file in which a tensor has another name.
func (f tensors) rename(from, to string) tensors {
	with := tensors{}
	for name, t := range f {
		if name == from {
			name = to
		}
		with[name] = t
	}
	return with
}

// eagleFile is the tensors and the config of an EAGLE layer, or of one of EAGLE-3 on three layers, and the name of the layer.
func eagleFile(random *rand.Rand, three bool) (own tensors, text, layer string) {
	own, text, layer = tensors{}, config, "layers.0"
	if !three {
		own.putBlock(random, layer, hidden)
		own.put(random, "fc.weight", hidden, 2*hidden)
	} else {
		layer = "midlayer"
		own.putBlock(random, layer, 2*hidden)
		own.put(random, "fc.weight", hidden, 3*hidden)
		own.put(random, "draft_head.weight", draftVocab, hidden)
		for _, name := range []string{layer + ".input_layernorm.weight", layer + ".hidden_norm.weight", "norm.weight"} {
			own.put(random, name, 1, hidden)
		}
		text = strings.Replace(config, "{", `{"draft_vocab_size": 25, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 1]}, `, 1)
	}
	return own, text, layer
}

// TestEagle: what EAGLE's and EAGLE-3's layers draft is what the formulas say.
func TestEagle(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	target := newTarget(random)
	m, err := model.FromHF("target", []byte(config), target)
	if err != nil {
		t.Fatal(err)
	}
	for _, three := range []bool{false, true} {
		t.Run(fmt.Sprint(three), func(t *testing.T) {
			own, text, layer := eagleFile(random, three)
			e, err := model.OpenEagle("eagle", []byte(text), own.rename("draft_head.weight", "lm_head.weight"), m)
			if err != nil || e.Three != three {
				t.Fatal(e, err)
			}
			o := model.Options{Act: graph.F32, Cache: graph.F32}
			g, err := m.Graph(o)
			if err == nil && three {
				g, err = graph.KeepLayers(g, e.Layers...)
			} else if err == nil {
				g, err = graph.KeepFinal(g)
			}
			if err != nil {
				t.Fatal(err)
			}
			dev := ref.New()
			r := newRig(t, dev, g, target)
			files := withRelease{e}
			d := Model{Name: "eagle", Vocab: vocab, Close: func() error { return nil }}
			for i := range g.Kept {
				d.Target = append(d.Target, r.target.Kept(i))
			}
			combine, err := e.Combine(o)
			if err != nil {
				t.Fatal(err)
			}
			if combine != nil {
				d.Combine = compiled(t, dev, combine, files, Limits(limits, 0))
				for i := range int32(draftVocab) {
					d.Tokens = append(d.Tokens, 2*i)
				}
			}
			layerGraph, err := e.Graph(o)
			if err != nil {
				t.Fatal(err)
			}
			d.Layer = compiled(t, dev, layerGraph, files, Limits(limits, 0))
			drafter, err := New(d)
			if err != nil {
				t.Fatal(err)
			}
			r.d = drafter.(draft.FromHidden)
			all := own.rename("", "")
			for name, tensor := range target {
				all[name] = tensor
			}
			drafts(t, r, func() func(int32, []float64, int) ([]float64, []float64) {
				f := &formula{files: all, layer: layer}
				if three {
					return f.eagle3
				}
				return f.eagle
			}, func(p int) []float64 {
				var x []float64
				for i := range r.states {
					x = append(x, r.states[i][p]...)
				}
				return x
			})
		})
	}
}

// withRelease is files of which nothing is released.
type withRelease struct{ *model.Eagle }

func (withRelease) Release([]byte) {}

// layersOf is the configuration with a layer that hidden states are taken from.
func layersOf(entry string) string {
	return strings.Replace(config, "{", `{"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, `+entry+`]}, `, 1)
}

// TestEagleRefuses drafters of other models.
func TestEagleRefuses(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	m, err := model.FromHF("target", []byte(config), newTarget(random))
	if err != nil {
		t.Fatal(err)
	}
	own := tensors{}
	if _, err := model.OpenEagle("eagle", []byte(config), own, m); err == nil || !strings.Contains(err.Error(), "has no tensor fc.weight") {
		t.Errorf("of a model that is no EAGLE layer: %v", err)
	}
	own.put(random, "fc.weight", hidden, 3*hidden)
	own.put(random, "midlayer.hidden_norm.weight", 1, hidden)
	for text, want := range map[string]string{
		strings.Replace(config, `"hidden_size": 24`, `"hidden_size": 30`, 1): "its hidden size is 30 and the model's 24",
		strings.Replace(config, `"vocab_size": 50`, `"vocab_size": 60`, 1):   "its vocabulary has 60 tokens and the model's 50",
		strings.Replace(config, "{", `{"draft_vocab_size": 51, `, 1):         "draft_vocab_size is 51; 1 to 50 are possible",
		config:              "it goes on from the inputs of layers [2 1 -1] of a model with 2 layers",
		layersOf(`"first"`): "eagle_aux_hidden_state_layer_ids in eagle_config has the entry first; numbers of the model's layers, 0 to 1, are wanted",
		layersOf("0.5"):     "has the entry 0.5",
		layersOf("2"):       "has the entry 2",
		layersOf("-1"):      "has the entry -1",
	} {
		if _, err := model.OpenEagle("eagle", []byte(text), own, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; it should say %q", err, want)
		}
	}
}
