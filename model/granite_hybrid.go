package model

import (
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// graniteHybrid is Granite 4: Mamba 2 layers beside attention, mostly without positions, Granite's multipliers, and experts beside one that
// every row passes.
var graniteHybrid = Arch{
	Name: "granitehybrid",
	HF:   []string{"GraniteMoeHybridForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		positions := f.word("position_embedding_type")
		if positions != "" && positions != "rope" && positions != "nope" {
			f.fail("field position_embedding_type is %q; rope and nope are supported", positions)
		}
		rotates := positions == "rope"
		if !f.isHF() { // llama.cpp says it by this key, which is true where it is absent, and writes the other for models without positions too
			rotates = f.sizeOr("", "rope.dimension_count", 0) > 0 && f.flagOr("", "rope.scaling.finetuned", true)
		}
		if rotates {
			c.Rotation = f.rotation(c, graph.HalfPairs)
		}
		f.note("rope.scaling.finetuned", rotates)
		f.readSSM(c, "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
		c.SSMNorm = true
		f.readExperts(c)
		c.SharedFFN = f.sizeOr("shared_intermediate_size", "expert_shared_feed_forward_length", 0)
		if c.Experts.Experts == 0 && c.SharedFFN > 0 { // the shared block is all there is
			c.FFN, c.SharedFFN = c.SharedFFN, 0
			f.note("feed_forward_length", uint32(c.FFN))
		}
		f.only("attention_bias", false)
		f.recurrentLayers(c)
		f.recurrentBiases(c, "mamba_conv_bias", "mamba_proj_bias")
		multipliers(f, c)
		f.ignored("mamba_chunk_size", "mamba_expand", "rope_parameters", "rope_theta", "rope_scaling", "normalization_function", "init_method")
		return c
	},
	Build: func(b *graph.Builder, c *Config) *graph.Value { return hybrid(b, c, layer.mamba2, "ffn_norm") },
	Names: merged(ssmNames("model.layers.N.mamba"), map[string]string{
		"blk.N.ffn_gate_inp":         "model.layers.N.block_sparse_moe.router.layer",
		"blk.N.ffn_gate_exps.weight": "model.layers.N.block_sparse_moe.input_linear.weight",
		"blk.N.ffn_up_exps.weight":   "model.layers.N.block_sparse_moe.input_linear.weight",
		"blk.N.ffn_down_exps.weight": "model.layers.N.block_sparse_moe.output_linear.weight",
		"blk.N.ffn_gate_shexp":       "model.layers.N.shared_mlp.input_linear",
		"blk.N.ffn_up_shexp":         "model.layers.N.shared_mlp.input_linear",
		"blk.N.ffn_down_shexp":       "model.layers.N.shared_mlp.output_linear",
		"blk.N.ffn_gate":             "model.layers.N.shared_mlp.input_linear",
		"blk.N.ffn_up":               "model.layers.N.shared_mlp.input_linear",
		"blk.N.ffn_down":             "model.layers.N.shared_mlp.output_linear",
	}),
	Recipe: func(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
		half := func(count, width, i int) recipe.Recipe {
			return recipe.RowsOfEach{Of: t, Count: count, From: i * width, To: (i + 1) * width}
		}
		switch stem { // gate and up are one matrix
		case "blk.N.ffn_gate_exps.weight":
			return half(c.Experts.Experts, c.ExpertFFN, 0)
		case "blk.N.ffn_up_exps.weight":
			return half(c.Experts.Experts, c.ExpertFFN, 1)
		case "blk.N.ffn_gate_shexp.weight":
			return half(1, c.SharedFFN, 0)
		case "blk.N.ffn_up_shexp.weight":
			return half(1, c.SharedFFN, 1)
		case "blk.N.ffn_gate.weight":
			return half(1, c.FFN, 0)
		case "blk.N.ffn_up.weight":
			return half(1, c.FFN, 1)
		}
		return ssmRecipe(stem, t, c)
	},
}
