package model

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// apertus is Apertus (arXiv:2509.14233): feed-forward blocks without a gate, whose function, xIELU, has coefficients learned layer by layer.
var apertus = Arch{
	Name: "apertus",
	HF:   []string{"ApertusForCausalLM"},
	Read: func(f *fields) *Config {
		if act := f.word("hidden_act"); act != "" && act != "xielu" {
			f.fail("field hidden_act is %q; xielu is supported", act)
		}
		delete(f.hf, "hidden_act")
		c := llamaLike(f)
		c.QKNorm, c.Plain = true, true
		f.only("post_norm", false)
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		c.OutBias = f.biased("attention_bias", "attn_output", false)
		c.MLPBias = f.biased("mlp_bias", "ffn_up", false)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		c.XIELU = f.xielu(c.Layers)
		return c
	},
	Names: map[string]string{
		"blk.N.attn_norm": "model.layers.N.attention_layernorm",
		"blk.N.ffn_norm":  "model.layers.N.feedforward_layernorm",
	},
	Build: preNorm,
}

// xielu reads the coefficients of each layer: from tensors of one number in a Hugging Face file, from lists in GGUF's metadata, as they are
// before training without a file.
func (f *fields) xielu(layers int) []graph.XIELU {
	if layers > maxLayers {
		return nil
	}
	lists := map[string][]float64{}
	for name, initial := range map[string]float64{"alpha_p": math.Log(math.Expm1(0.8)), "alpha_n": math.Log(math.Expm1(0.3)), "beta": 0.5, "eps": -1e-6} {
		list, written := make([]float64, layers), make([]float32, layers)
		for i := range list {
			list[i] = f.coefficient(name, i, initial)
			written[i] = float32(list[i])
			list[i] = float64(written[i])
		}
		lists[name] = list
		f.note("/xielu."+name, written)
	}
	all := make([]graph.XIELU, layers)
	for i := range all {
		beta := lists["beta"][i]
		all[i] = graph.XIELU{Positive: softplus(lists["alpha_p"][i]), Negative: beta + softplus(lists["alpha_n"][i]), Beta: beta, Eps: lists["eps"][i]}
	}
	return all
}

// coefficient is one of a layer's.
func (f *fields) coefficient(name string, layer int, initial float64) float64 {
	if !f.isHF() {
		switch v := f.gguf["xielu."+name].(type) {
		case []float32:
			if layer < len(v) {
				return float64(v[layer])
			}
		case float32:
			return float64(v)
		}
		f.fail("field xielu.%s is missing for layer %d", name, layer)
		return initial
	}
	if f.files == nil {
		return initial
	}
	for _, prefix := range []string{"model.", ""} {
		t, ok := f.files.Tensor(fmt.Sprintf("%slayers.%d.mlp.act_fn.%s", prefix, layer, name))
		if ok && t.Rows*t.Cols == 1 {
			x := make([]float32, 1)
			quant.Decode(t.Format, x, t.Data)
			return float64(x[0])
		}
	}
	if name == "beta" || name == "eps" { // which early files leave out
		return initial
	}
	f.fail("it has no tensor model.layers.%d.mlp.act_fn.%s of one number", layer, name)
	return initial
}

func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
