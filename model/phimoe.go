package model

import "github.com/ridge-llm/ridge/graph"

// phimoe is Phi-3.5-MoE (arXiv:2404.14219): LayerNorm, and two experts chosen one after the other (SparseMixer).
var phimoe = Arch{
	Name: "phimoe",
	HF:   []string{"PhimoeForCausalLM"},
	Read: func(f *fields) *Config {
		f.renamed("rms_norm_eps", "layer_norm_eps")
		c := layerNormed(f, "layer_norm_eps", true)
		f.note("attention.layer_norm_rms_epsilon", float32(c.NormEps)) // as llama.cpp's loader has it
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		c.OutBias = f.biased("attention_bias", "attn_output", false)
		c.HeadBias = f.switched("lm_head_bias", "output.bias", false)
		for _, name := range []string{"rope_parameters", "rope_scaling"} {
			p := ropeParams{f: f, m: f.object(name)}
			if short, long := p.float("short_mscale", 0), p.float("long_mscale", 0); short != long {
				f.fail("its rotation has short_mscale %g and long_mscale %g; the same of both is supported", short, long)
			} else if short != 0 {
				p.m["attention_factor"] = short
			}
		}
		c.Rotation = f.rotation(c, graph.HalfPairs)
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 0), everyLayer)
		f.readExperts(c)
		c.Experts.Shares = true
		c.Route = graph.Route{TopK: c.Experts.TopK, NoRenorm: true, Mixer: 2 * f.floatOr("router_jitter_noise", "", 0.01)}
		if err := c.Route.Check(max(c.Experts.Experts, 1)); err != nil {
			f.fail("%v (fields num_experts_per_tok, router_jitter_noise)", err)
		}
		return c
	},
	Names: map[string]string{
		"blk.N.ffn_gate_inp": "model.layers.N.block_sparse_moe.gate",
		"blk.N.ffn_gate.E":   "model.layers.N.block_sparse_moe.experts.E.w1",
		"blk.N.ffn_down.E":   "model.layers.N.block_sparse_moe.experts.E.w2",
		"blk.N.ffn_up.E":     "model.layers.N.block_sparse_moe.experts.E.w3",
	},
	Build: preNorm,
}
