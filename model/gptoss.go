package model

import (
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// gptoss has experts with biases and bounded gates, and a sink for each attention head; every other layer looks back a window
// only (arXiv:2508.10925). In Hugging Face files the columns of an expert's gate and up are interleaved.
var gptoss = Arch{
	Name: "gpt-oss",
	HF:   []string{"GptOssForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.QKVBias, c.OutBias, c.Sinks = true, true, true
		f.only("attention_bias", true)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		if !f.isHF() && c.Rotation != nil { // what GGUF has no key for
			c.Rotation.Scaling.Exact = c.Rotation.Scaling.Kind == graph.YarnScaling
		}
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 0), func(i int) bool { return i%2 == 0 })
		if f.readExperts(c); c.Experts.Experts == 0 {
			f.fail("field num_local_experts is 0; every layer of this architecture has experts")
		}
		c.ExpertFFN = f.sizeOr("intermediate_size", "expert_feed_forward_length", c.FFN)
		c.Experts.Biased, c.Experts.Clamp = true, f.floatOr("swiglu_limit", "", 7)
		if q := f.object("quantization_config"); q != nil && q["quant_method"] == "mxfp4" {
			f.experts = quant.MXFP4
		}
		return c
	},
	Build: lateNamed,
	Names: map[string]string{
		"blk.N.post_attention_norm":  "model.layers.N.post_attention_layernorm",
		"blk.N.attn_sinks.weight":    "model.layers.N.self_attn.sinks",
		"blk.N.ffn_gate_inp":         "model.layers.N.mlp.router",
		"blk.N.ffn_gate_exps.weight": "model.layers.N.mlp.experts.gate_up_proj",
		"blk.N.ffn_up_exps.weight":   "model.layers.N.mlp.experts.gate_up_proj",
		"blk.N.ffn_down_exps.weight": "model.layers.N.mlp.experts.down_proj",
		"blk.N.ffn_gate_exps.bias":   "model.layers.N.mlp.experts.gate_up_proj_bias",
		"blk.N.ffn_up_exps.bias":     "model.layers.N.mlp.experts.gate_up_proj_bias",
		"blk.N.ffn_down_exps.bias":   "model.layers.N.mlp.experts.down_proj_bias",
	},
	Recipe: func(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
		if _, packed := t.(recipe.MXFP4); packed { // each matrix out × in, gate and up rows interleaved
			switch stem {
			case "blk.N.ffn_gate_exps.weight":
				return recipe.EveryRow{Of: t, First: 0, Every: 2}
			case "blk.N.ffn_up_exps.weight":
				return recipe.EveryRow{Of: t, First: 1, Every: 2}
			}
			return t
		}
		gates, ups := recipe.Columns{Of: t, First: 0, Every: 2}, recipe.Columns{Of: t, First: 1, Every: 2}
		switch n := c.Experts.Experts; stem {
		case "blk.N.ffn_gate_exps.weight":
			return recipe.Transpose{Of: gates, Count: n}
		case "blk.N.ffn_up_exps.weight":
			return recipe.Transpose{Of: ups, Count: n}
		case "blk.N.ffn_down_exps.weight":
			return recipe.Transpose{Of: t, Count: n}
		case "blk.N.ffn_gate_exps.bias":
			return gates
		case "blk.N.ffn_up_exps.bias":
			return ups
		}
		return t
	},
}
