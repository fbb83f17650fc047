package model

import "github.com/ridge-llm/ridge/graph"

// jamba is AI21's Jamba (arXiv:2403.19887): Mamba 1 with norms, attention without positions in some layers, experts in some.
var jamba = Arch{
	Name: "jamba",
	HF:   []string{"JambaForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		f.readScan(c, f.sizeOr("mamba_expand", "", 2)*c.Hidden, "mamba_d_state", "mamba_dt_rank", "mamba_d_conv")
		c.Scan.Norms = true
		f.readExperts(c)
		c.Experts.NoRenorm = true
		f.ignored("use_mamba_kernels", "use_associative_scan", "use_mambapy", "num_logits_to_keep")
		if !f.isHF() {
			f.recurrentLayers(c)
			c.Dense = f.denseByTensors(c)
			f.recurrentBiases(c, "", "")
			return c
		}
		if c.Layers > maxLayers {
			return c
		}
		c.Recurrent, c.Dense = make([]bool, c.Layers), make([]bool, c.Layers)
		heads := make([]int32, c.Layers)
		attnEvery, attnFrom := max(1, f.sizeOr("attn_layer_period", "", 8)), f.sizeOr("attn_layer_offset", "", 4)
		expertEvery, expertFrom := max(1, f.sizeOr("expert_layer_period", "", 2)), f.sizeOr("expert_layer_offset", "", 1)
		for i := range c.Layers {
			if c.Recurrent[i] = i%attnEvery != attnFrom; !c.Recurrent[i] {
				heads[i] = int32(c.KVHeads)
			}
			c.Dense[i] = c.Experts.Experts <= 1 || i%expertEvery != expertFrom
		}
		f.note("attention.head_count_kv", heads)
		f.recurrentBiases(c, "mamba_conv_bias", "mamba_proj_bias")
		return c
	},
	Build: func(b *graph.Builder, c *Config) *graph.Value { return hybrid(b, c, layer.mamba1, "ffn_norm") },
	Names: merged(scanNames("model.layers.N.mamba"), map[string]string{
		"output_norm":        "model.final_layernorm",
		"blk.N.ffn_norm":     "model.layers.N.pre_ff_layernorm",
		"blk.N.ffn_gate":     "model.layers.N.feed_forward.gate_proj",
		"blk.N.ffn_up":       "model.layers.N.feed_forward.up_proj",
		"blk.N.ffn_down":     "model.layers.N.feed_forward.down_proj",
		"blk.N.ffn_gate_inp": "model.layers.N.feed_forward.router",
		"blk.N.ffn_gate.E":   "model.layers.N.feed_forward.experts.E.gate_proj",
		"blk.N.ffn_up.E":     "model.layers.N.feed_forward.experts.E.up_proj",
		"blk.N.ffn_down.E":   "model.layers.N.feed_forward.experts.E.down_proj",
	}),
	Recipe: ssmRecipe,
}
