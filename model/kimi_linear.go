package model

import (
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// kimiLinear is Kimi Linear (arXiv:2510.26692): three layers of four have the gated delta rule with a decay for each number of a key, the
// others latent attention without rotation; experts are routed as DeepSeek-V3's.
var kimiLinear = Arch{
	Name: "kimi-linear",
	HF:   []string{"KimiLinearForCausalLM"},
	Read: func(f *fields) *Config {
		for old, now := range map[string]string{
			"model_max_length": "max_position_embeddings", "num_experts_per_token": "num_experts_per_tok", "num_shared_experts": "n_shared_experts",
			"moe_renormalize": "norm_topk_prob", "num_expert_group": "n_group", "moe_router_activation_func": "scoring_func",
		} {
			f.renamed(old, now)
		}
		if v := f.value("num_experts"); f.isHF() && v != nil { // beside another name for it, in transformers' files
			if other := f.value("n_routed_experts"); other != nil && other != v {
				f.fail("field num_experts is %v and n_routed_experts %v", v, other)
			}
			f.hf["n_routed_experts"] = v
			delete(f.hf, "num_experts")
		}
		f.ignored("head_dim") // of neither kind of layer
		delete(f.hf, "head_dim")
		c := latentLike(f)
		if c.Layers > maxLayers {
			return c
		}
		c.NoRope = slices.Repeat([]bool{true}, c.Layers)
		f.only("mla_use_nope", true)
		f.only("mla_use_output_gate", false)
		f.kimiLayers(c)
		f.readExperts(c)
		f.readRouting(c, graph.Route{Sigmoid: true})
		f.denseFirst(c)
		return c
	},
	Names: merged(latentNames, map[string]string{
		"blk.N.ffn_norm":         "model.layers.N.post_attention_layernorm",
		"blk.N.ffn_gate":         "model.layers.N.mlp.gate_proj|model.layers.N.block_sparse_moe.gate_proj",
		"blk.N.ffn_up":           "model.layers.N.mlp.up_proj|model.layers.N.block_sparse_moe.up_proj",
		"blk.N.ffn_down":         "model.layers.N.mlp.down_proj|model.layers.N.block_sparse_moe.down_proj",
		"blk.N.ffn_gate_inp":     "model.layers.N.block_sparse_moe.gate",
		"blk.N.exp_probs_b.bias": "model.layers.N.block_sparse_moe.gate.e_score_correction_bias",
		"blk.N.ffn_gate.E":       "model.layers.N.block_sparse_moe.experts.E.w1",
		"blk.N.ffn_down.E":       "model.layers.N.block_sparse_moe.experts.E.w2",
		"blk.N.ffn_up.E":         "model.layers.N.block_sparse_moe.experts.E.w3",
		"blk.N.ffn_gate_shexp":   "model.layers.N.block_sparse_moe.shared_experts.gate_proj",
		"blk.N.ffn_up_shexp":     "model.layers.N.block_sparse_moe.shared_experts.up_proj",
		"blk.N.ffn_down_shexp":   "model.layers.N.block_sparse_moe.shared_experts.down_proj",
		"blk.N.ssm_conv1d_q":     "model.layers.N.self_attn.q_conv1d",
		"blk.N.ssm_conv1d_k":     "model.layers.N.self_attn.k_conv1d",
		"blk.N.ssm_conv1d_v":     "model.layers.N.self_attn.v_conv1d",
		"blk.N.ssm_f_a":          "model.layers.N.self_attn.f_a_proj",
		"blk.N.ssm_f_b":          "model.layers.N.self_attn.f_b_proj",
		"blk.N.ssm_g_a":          "model.layers.N.self_attn.g_a_proj",
		"blk.N.ssm_g_b":          "model.layers.N.self_attn.g_b_proj",
		"blk.N.ssm_beta":         "model.layers.N.self_attn.b_proj",
		"blk.N.ssm_a":            "model.layers.N.self_attn.A_log",
		"blk.N.ssm_dt.bias":      "model.layers.N.self_attn.dt_bias",
		"blk.N.ssm_norm":         "model.layers.N.self_attn.o_norm",
	}),
	Recipe: func(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
		if stem == "blk.N.ssm_a" { // decays are stored as logarithms
			return recipe.NegExp{Of: t}
		}
		return latentRecipe(stem, t, c)
	},
	Build: func(b *graph.Builder, c *Config) *graph.Value { return hybrid(b, c, layer.kimiDelta, "ffn_norm") },
}

// kimiDelta is a layer of Kimi Delta Attention on normalised rows h: queries, keys and values, a convolution of each, the rule, a norm of each
// head with a gate, output. Decays and gates come from matrices of low rank.
func (l layer) kimiDelta(h *graph.Value) *graph.Value {
	o := l.c.KDA
	rows, heads := graph.Axis{Name: "values", Count: o.Heads, Size: o.Size}, graph.Axis{Name: "values", Count: o.Heads, Size: 1}
	low, width := graph.Axis{Name: "rank", Count: o.Size, Size: 1}, graph.Axis{Name: "width", Count: l.c.ConvWidth, Size: 1}
	convolved := func(of string) *graph.Value {
		x := l.linear("attn_"+of, h, rows, false)
		return l.b.CausalConvOf("conv_"+of, l.name("conv_"+of), l.i, x, l.matrix("ssm_conv1d_"+of, rows, width), nil, true)
	}
	q, k, v := convolved("q"), convolved("k"), convolved("v")
	decay := l.linear("ssm_f_b", l.linear("ssm_f_a", h, low, false), rows, false)
	y := l.b.KimiDelta(l.name("delta"), l.i, q, k, v, decay, l.linear("ssm_beta", h, heads, false), o, l.b.Weight(l.name("ssm_a"), heads, graph.Axis{Name: "one", Count: 1, Size: 1}), l.bias("ssm_dt", rows, true))
	y = l.b.GroupRMSNorm(l.name("ssm_norm"), y, l.b.Vector(l.name("ssm_norm.weight"), graph.Axis{Name: "head", Count: 1, Size: o.Size}), l.c.NormEps)
	gate := l.linear("ssm_g_b", l.linear("ssm_g_a", h, low, false), rows, false)
	return l.linear("attn_output", l.b.ActMul(l.name("delta_gated"), gate, y, graph.Sigmoid), l.c.hidden(), false)
}
