package model

import "github.com/ridge-llm/ridge/graph"

// deepseek2 is DeepSeek-V2 (arXiv:2405.04434): multi-head latent attention, experts beside shared ones, first layers without.
var deepseek2 = Arch{
	Name: "deepseek2",
	HF:   []string{"DeepseekV2ForCausalLM"},
	Read: func(f *fields) *Config {
		c := latentLike(f)
		f.readExperts(c)
		f.readRouting(c, graph.Route{NoRenorm: true})
		return c
	},
	Build:  preNorm,
	Names:  latentNames,
	Recipe: latentRecipe,
}

// deepseek3 is DeepSeek-V3 and R1 (arXiv:2412.19437) and Kimi K2: experts are chosen in groups by biased sigmoids. GGUF files of it say
// deepseek2, and the same of their experts by keys.
var deepseek3 = Arch{
	Name: "deepseek2",
	HF:   []string{"DeepseekV3ForCausalLM"},
	Read: func(f *fields) *Config {
		c := latentLike(f)
		f.readExperts(c)
		f.readRouting(c, graph.Route{Sigmoid: true})
		return c
	},
	Build:  preNorm,
	Names:  latentNames,
	Recipe: latentRecipe,
}

// latentNames are Hugging Face's names of latent attention and of experts routed by biased sigmoids.
var latentNames = merged(routedNames, map[string]string{
	"blk.N.attn_q_a":       "model.layers.N.self_attn.q_a_proj",
	"blk.N.attn_q_a_norm":  "model.layers.N.self_attn.q_a_layernorm",
	"blk.N.attn_q_b":       "model.layers.N.self_attn.q_b_proj",
	"blk.N.attn_kv_a_mqa":  "model.layers.N.self_attn.kv_a_proj_with_mqa",
	"blk.N.attn_kv_a_norm": "model.layers.N.self_attn.kv_a_layernorm",
	"blk.N.attn_k_b":       "model.layers.N.self_attn.kv_b_proj",
	"blk.N.attn_v_b":       "model.layers.N.self_attn.kv_b_proj",
})
