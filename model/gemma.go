package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// gemma is Gemma 1 (arXiv:2403.08295): Llama with scaled embeddings, gelu gates and norms that multiply by 1 + w.
var gemma = Arch{
	Name: "gemma",
	HF:   []string{"GemmaForCausalLM"},
	Read: func(f *fields) *Config {
		c := gemmaLike(f)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		return c
	},
	Recipe: gemmaRecipe,
	Build:  preNorm,
}

// gemma2 is Gemma 2 (arXiv:2408.00118): norms before and after each block, soft caps on scores and logits, and a window on
// every other layer.
var gemma2 = Arch{
	Name: "gemma2",
	HF:   []string{"Gemma2ForCausalLM"},
	Read: func(f *fields) *Config {
		c := gemmaLike(f)
		scalar := c.HeadDim
		if !f.isHF() && c.Layers == 46 { // the 27B model's is another, which GGUF files leave readers to know
			scalar = c.Hidden / max(c.Heads, 1)
		}
		c.AttnScale = 1 / math.Sqrt(f.floatOr("query_pre_attn_scalar", "", float64(scalar)))
		c.AttnCap = f.floatOr("attn_logit_softcapping", "attn_logit_softcapping", 0)
		c.LogitCap = f.floatOr("final_logit_softcapping", "final_logit_softcapping", 0)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 4096), func(i int) bool { return i%2 == 0 })
		return c
	},
	Names:  sandwichNames,
	Recipe: gemmaRecipe,
	Build:  sandwich,
}

// gemmaLike reads what the Gemma family shares.
func gemmaLike(f *fields) *Config {
	if f.isHF() && f.flag("use_bidirectional_attention", false) {
		f.fail("field use_bidirectional_attention is true, which makes it an encoder; of class Gemma3TextModel encoders are supported")
	}
	return gemmaFamily(f)
}

// gemmaFamily is gemmaLike of encoders too.
func gemmaFamily(f *fields) *Config {
	c := llamaLike(f)
	c.HeadDim = f.sizeOr("head_dim", "attention.key_length", 256)
	c.AttnScale = 1 / math.Sqrt(float64(c.HeadDim))
	c.Tied = f.tied(true)
	c.Act = f.activation("hidden_activation", graph.GeluTanh)
	c.QKVBias = f.biased("attention_bias", "attn_q", false)
	c.OutBias = f.biased("attention_bias", "attn_output", false)
	c.EmbScale = math.Sqrt(float64(c.Hidden))
	return c
}

// gemmaRecipe: Hugging Face files hold norms without their one.
func gemmaRecipe(stem string, t recipe.Recipe, _ *Config) recipe.Recipe {
	if isNorm(stem) {
		return recipe.PlusOne{Of: t}
	}
	return t
}

// sandwichNames are Hugging Face's names of norms before and after each block.
var sandwichNames = map[string]string{
	"blk.N.post_attention_norm": "model.layers.N.post_attention_layernorm",
	"blk.N.ffn_norm":            "model.layers.N.pre_feedforward_layernorm",
	"blk.N.post_ffw_norm":       "model.layers.N.post_feedforward_layernorm",
}
