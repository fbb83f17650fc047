package model

import (
	"math"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// gpt2 is GPT-2 (Radford et al., 2019): learned positions, LayerNorm, biases everywhere, a plain feed-forward block.
// Hugging Face files hold its matrices as in × out.
var gpt2 = Arch{
	Name: "gpt2",
	HF:   []string{"GPT2LMHeadModel"},
	Read: func(f *fields) *Config {
		c := &Config{
			Hidden:  f.size("n_embd", "embedding_length"),
			Layers:  f.size("n_layer", "block_count"),
			Heads:   f.size("n_head", "attention.head_count"),
			Context: f.size("n_positions", "context_length"),
			NormEps: f.floatOr("layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-5),
			Vocab:   f.vocabulary(),
			Tied:    f.tied(true),
			Act:     f.activation("activation_function", graph.GeluTanh),
			QKVBias: true, OutBias: true, MLPBias: true,
		}
		c.FFN = f.sizeOr("n_inner", "feed_forward_length", 4*c.Hidden)
		c.KVHeads, c.HeadDim = c.Heads, c.Hidden/max(c.Heads, 1)
		c.AttnScale = 1 / math.Sqrt(float64(c.HeadDim))
		if !f.flag("scale_attn_weights", true) {
			c.AttnScale = 1
		}
		c.ScaleByLayer = f.flag("scale_attn_by_inverse_layer_idx", false)
		if c.Layers <= maxLayers {
			c.Windows = make([]int, c.Layers)
		}
		return c
	},
	Names: map[string]string{
		"token_embd":        "transformer.wte",
		"position_embd":     "transformer.wpe",
		"output_norm":       "transformer.ln_f",
		"blk.N.attn_norm":   "transformer.h.N.ln_1",
		"blk.N.attn_qkv":    "transformer.h.N.attn.c_attn",
		"blk.N.attn_output": "transformer.h.N.attn.c_proj",
		"blk.N.ffn_norm":    "transformer.h.N.ln_2",
		"blk.N.ffn_up":      "transformer.h.N.mlp.c_fc",
		"blk.N.ffn_down":    "transformer.h.N.mlp.c_proj",
	},
	Recipe: func(stem string, t recipe.Recipe, _ *Config) recipe.Recipe {
		if strings.HasPrefix(stem, "blk.") && strings.HasSuffix(stem, ".weight") && !isNorm(stem) {
			return recipe.Transpose{Of: t, Count: 1}
		}
		return t
	},
	Build: func(b *graph.Builder, c *Config) *graph.Value {
		positions := graph.Axis{Name: "positions", Count: c.Context, Size: 1}
		x := b.Add("embd_sum", embedding(b, c), b.EmbedPosition("pos", b.Weight("position_embd.weight", positions, c.hidden())))
		for i := range c.Layers {
			l := newLayer(b, c, i)
			q, k, v := l.fusedQKV(l.layerNorm("attn_norm", x), true)
			x = l.add("attn_sum", x, l.attend(q, k, v))
			x = l.add("ffn_sum", x, l.plain(l.layerNorm("ffn_norm", x)))
		}
		b.Layer(graph.NoLayer)
		w, bias := b.Vector("output_norm.weight", c.hidden()), b.Vector("output_norm.bias", c.hidden())
		return logits(b, c, b.LayerNorm("output_norm", b.SelectRows("selected", x), w, bias, c.NormEps))
	},
}

// layerNorm is LayerNorm with weight and bias of the layer.
func (l layer) layerNorm(stem string, x *graph.Value) *graph.Value {
	w, bias := l.b.Vector(l.name(stem)+".weight", x.Axis), l.b.Vector(l.name(stem)+".bias", x.Axis)
	return l.b.LayerNorm(l.name(stem), x, w, bias, l.c.NormEps)
}

// isNorm reports whether a stem names a norm's weight or bias.
func isNorm(stem string) bool { return strings.Contains(stem, "norm") }
