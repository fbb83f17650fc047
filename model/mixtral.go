package model

import "github.com/ridge-llm/ridge/graph"

// mixtral is Mistral with experts in place of the feed-forward block (arXiv:2401.04088). GGUF files call it llama.
var mixtral = Arch{
	Name: "llama",
	HF:   []string{"MixtralForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.Rotation = f.rotation(c, graph.AdjacentPairs)
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 0), everyLayer)
		f.readExperts(c)
		return c
	},
	Build: preNorm,
	Names: map[string]string{
		"blk.N.ffn_gate_inp": "model.layers.N.block_sparse_moe.gate",
		"blk.N.ffn_gate.E":   "model.layers.N.block_sparse_moe.experts.E.w1",
		"blk.N.ffn_down.E":   "model.layers.N.block_sparse_moe.experts.E.w2",
		"blk.N.ffn_up.E":     "model.layers.N.block_sparse_moe.experts.E.w3",
	},
}
