package model

import "github.com/ridge-llm/ridge/graph"

// Decoders of a familiar kind with experts routed as DeepSeek-V3's are.

// routedNames are Hugging Face's names of experts routed so.
var routedNames = map[string]string{
	"blk.N.ffn_gate_inp":     "model.layers.N.mlp.gate",
	"blk.N.exp_probs_b.bias": "model.layers.N.mlp.gate.e_score_correction_bias",
	"blk.N.ffn_gate.E":       "model.layers.N.mlp.experts.E.gate_proj",
	"blk.N.ffn_down.E":       "model.layers.N.mlp.experts.E.down_proj",
	"blk.N.ffn_up.E":         "model.layers.N.mlp.experts.E.up_proj",
}

// dots1 is dots.llm1 (arXiv:2506.05767).
var dots1 = Arch{
	Name: "dots1",
	HF:   []string{"Dots1ForCausalLM"},
	Read: func(f *fields) *Config {
		c := qwen3.Read(f)
		f.readExperts(c)
		f.readRouting(c, graph.Route{Sigmoid: true})
		return c
	},
	Names: routedNames,
	Build: preNorm,
}

// glm4moe is GLM-4.5 to 4.7 (arXiv:2508.06471): a half of each head rotated, biases on queries, keys and values.
var glm4moe = Arch{
	Name: "glm4moe",
	HF:   []string{"Glm4MoeForCausalLM"},
	Read: func(f *fields) *Config {
		f.partialRotary(0.5)
		c := llamaLike(f)
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		c.QKNorm = f.switched("use_qk_norm", "blk.0.attn_q_norm.weight", false)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		f.readExperts(c)
		f.readRouting(c, graph.Route{Sigmoid: true})
		return c
	},
	Names: merged(routedNames, map[string]string{"blk.N.post_attention_norm": "model.layers.N.post_attention_layernorm"}),
	Build: lateNamed,
}

// minimaxM2 is MiniMax M2: norms over all of the queries and all of the keys, every layer of experts.
var minimaxM2 = Arch{
	Name: "minimax-m2",
	HF:   []string{"MiniMaxM2ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		if v, ok := number(f.value("rotary_dim")); ok && f.value("partial_rotary_factor") == nil && f.object("rope_parameters") == nil {
			f.hf["partial_rotary_factor"] = v / float64(max(c.HeadDim, 1))
		}
		c.WholeQKNorm = f.switched("use_qk_norm", "blk.0.attn_q_norm.weight", true)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		f.readExperts(c)
		f.readRouting(c, graph.Route{Sigmoid: true})
		return c
	},
	Names: map[string]string{
		"blk.N.ffn_gate_inp":     "model.layers.N.block_sparse_moe.gate",
		"blk.N.exp_probs_b.bias": "model.layers.N.block_sparse_moe.e_score_correction_bias",
		"blk.N.ffn_gate.E":       "model.layers.N.block_sparse_moe.experts.E.w1",
		"blk.N.ffn_down.E":       "model.layers.N.block_sparse_moe.experts.E.w2",
		"blk.N.ffn_up.E":         "model.layers.N.block_sparse_moe.experts.E.w3",
	},
	Build: preNorm,
}

// ernie45moe is ERNIE 4.5 with experts: chosen by softmax plus a bias.
var ernie45moe = Arch{
	Name: "ernie4_5-moe",
	HF:   []string{"Ernie4_5_MoeForCausalLM"},
	Read: func(f *fields) *Config {
		f.renamed("moe_layer_start_index", "first_k_dense_replace")
		f.renamed("moe_num_shared_experts", "n_shared_experts")
		c := ernie45.Read(f)
		f.readExperts(c)
		f.readRouting(c, graph.Route{})
		f.note("expert_shared_feed_forward_length", uint32(c.SharedFFN)) // of all of them together, as llama.cpp's loader has it
		if every := f.sizeOr("moe_layer_interval", "interleave_moe_layer_step", 1); every != 1 {
			f.fail("every %d layers have experts (moe_layer_interval); 1 is supported", every)
		}
		if last := f.sizeOr("moe_layer_end_index", "", c.Layers-1); f.isHF() && last != c.Layers-1 && f.value("moe_layer_end_index") != -1.0 {
			f.fail("its layers after number %d have no experts (moe_layer_end_index); all after the first are supported", last)
		}
		if least := f.floatOr("moe_norm_min", "", 1e-12); least > 1e-6 {
			f.fail("the sum of shares is at least %g (moe_norm_min); at most 1e-6 is supported, which changes nothing", least)
		}
		c.RouteBias = c.RouteBias || f.isHF() && f.flag("moe_use_aux_free", true)
		return c
	},
	Names: merged(routedNames, map[string]string{"blk.N.exp_probs_b.bias": "model.layers.N.mlp.moe_statics.e_score_correction_bias"}),
	Build: preNorm,
}
