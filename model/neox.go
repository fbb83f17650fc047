package model

import (
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Decoders with LayerNorm, most of them with biases everywhere.

// gptNeoX is GPT-NeoX and Pythia (arXiv:2204.06745): both blocks of a layer beside one another, each behind its norm. Hugging Face files
// hold queries, keys and values of one head after the other's.
var gptNeoX = Arch{
	Name: "gptneox",
	HF:   []string{"GPTNeoXForCausalLM"},
	Read: func(f *fields) *Config {
		f.renamed("rotary_pct", "partial_rotary_factor")
		f.renamed("rotary_emb_base", "rope_theta")
		f.partialRotary(0.25)
		c := layerNormed(f, "layer_norm_eps", true)
		c.Act = f.activation("hidden_act", graph.GeluErf)
		c.FusedQKV, c.Plain, c.MLPBias = true, true, true
		c.QKVBias = f.biased("attention_bias", "attn_qkv", true)
		c.OutBias = f.biased("attention_bias", "attn_output", true)
		if f.parallel("use_parallel_residual", true) {
			c.Parallel = OwnNorm
		}
		c.Rotation = f.rotation(c, graph.HalfPairs)
		if c.KVHeads != c.Heads {
			f.fail("its %d query heads share %d key heads; as many of both are supported", c.Heads, c.KVHeads)
		}
		return c
	},
	Names: map[string]string{
		"token_embd":        "gpt_neox.embed_in",
		"output_norm":       "gpt_neox.final_layer_norm",
		"output":            "embed_out",
		"blk.N.attn_norm":   "gpt_neox.layers.N.input_layernorm",
		"blk.N.attn_qkv":    "gpt_neox.layers.N.attention.query_key_value",
		"blk.N.attn_output": "gpt_neox.layers.N.attention.dense",
		"blk.N.ffn_norm":    "gpt_neox.layers.N.post_attention_layernorm",
		"blk.N.ffn_up":      "gpt_neox.layers.N.mlp.dense_h_to_4h",
		"blk.N.ffn_down":    "gpt_neox.layers.N.mlp.dense_4h_to_h",
	},
	Recipe: func(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
		if stem != "blk.N.attn_qkv.weight" && stem != "blk.N.attn_qkv.bias" {
			return t
		}
		index := make([]int, 0, 3*c.Heads*c.HeadDim)
		for which := range 3 {
			for h := range c.Heads {
				for i := range c.HeadDim {
					index = append(index, (3*h+which)*c.HeadDim+i)
				}
			}
		}
		return recipe.Permute{Of: t, Index: index}
	},
	Build: preNorm,
}

// parallel reads whether both blocks of a layer are beside one another.
func (f *fields) parallel(hf string, otherwise bool) bool {
	is := otherwise
	if f.isHF() {
		is = f.flag(hf, otherwise)
	} else if v, ok := f.meta("use_parallel_residual").(bool); ok {
		is = v
	}
	f.note("use_parallel_residual", is)
	return is
}

// phi2 is Phi-1, Phi-1.5 and Phi-2 (arXiv:2306.11644): both blocks of a layer read one norm.
var phi2 = Arch{
	Name: "phi2",
	HF:   []string{"PhiForCausalLM"},
	Read: func(f *fields) *Config {
		f.partialRotary(0.5)
		c := layerNormed(f, "layer_norm_eps", true)
		c.Act = f.activation("hidden_act", graph.GeluTanh)
		c.QKVBias, c.OutBias, c.MLPBias, c.HeadBias, c.Plain, c.Parallel = true, true, true, true, true, SharedNorm
		f.only("qk_layernorm", false)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		if !f.isHF() {
			c.FusedQKV = f.has("blk.0.attn_qkv.weight")
		}
		return c
	},
	Names: map[string]string{
		"output_norm":       "model.final_layernorm",
		"blk.N.attn_output": "model.layers.N.self_attn.dense",
		"blk.N.ffn_up":      "model.layers.N.mlp.fc1",
		"blk.N.ffn_down":    "model.layers.N.mlp.fc2",
	},
	Build: preNorm,
}

// stablelm is StableLM 2 (arXiv:2402.17834): Llama with LayerNorm, a quarter of each head rotated, and, in the 12B model, both blocks of
// a layer behind one norm.
var stablelm = Arch{
	Name: "stablelm",
	HF:   []string{"StableLmForCausalLM"},
	Read: func(f *fields) *Config {
		f.renamed("rope_pct", "partial_rotary_factor")
		f.partialRotary(0.25)
		c := layerNormed(f, "layer_norm_eps", true)
		c.QKVBias = f.biased("use_qkv_bias", "attn_q", false)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		f.only("qk_layernorm", false)
		if f.has("blk.0.attn_q_norm.weight") && !f.isHF() {
			f.fail("it normalises each head by a weight of its own (attn_q_norm), which is not supported")
		}
		if f.parallel("use_parallel_residual", !f.isHF() && !f.has("blk.0.ffn_norm.weight")) {
			c.Parallel = SharedNorm
		}
		return c
	},
	Build: preNorm,
}

// starcoder2 is StarCoder 2 (arXiv:2402.19173): LayerNorm, biases everywhere, no gates.
var starcoder2 = Arch{
	Name: "starcoder2",
	HF:   []string{"Starcoder2ForCausalLM"},
	Read: func(f *fields) *Config {
		c := layerNormed(f, "norm_epsilon", true)
		c.Tied = f.tied(true)
		c.Act, c.Plain = f.activation("hidden_act", graph.GeluTanh), true
		c.QKVBias = f.biased("use_bias", "attn_q", true)
		c.OutBias = f.biased("use_bias", "attn_output", true)
		c.MLPBias = f.biased("use_bias", "ffn_up", true)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 0), everyLayer)
		return c
	},
	Names: map[string]string{
		"blk.N.ffn_up":   "model.layers.N.mlp.c_fc",
		"blk.N.ffn_down": "model.layers.N.mlp.c_proj",
	},
	Build: preNorm,
}
