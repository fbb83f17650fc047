package model

import (
	"github.com/ridge-llm/ridge/graph"
)

// phi3 is Phi-3 and Phi-4 (arXiv:2404.14219): Llama with queries, keys and values in one matrix, gate and up in
// another.
var phi3 = Arch{
	Name: "phi3",
	HF:   []string{"Phi3ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.FusedQKV, c.FusedGate = true, true
		c.Rotation = f.rotation(c, graph.HalfPairs)
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 0), everyLayer)
		return c
	},
	Names: map[string]string{"blk.N.ffn_up": "model.layers.N.mlp.gate_up_proj"},
	Build: preNorm,
}
