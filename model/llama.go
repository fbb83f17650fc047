package model

import "github.com/ridge-llm/ridge/graph"

// llama is Llama 1 to 3 and all that took its shape (arXiv:2302.13971, arXiv:2407.21783).
var llama = Arch{
	Name: "llama",
	HF:   []string{"LlamaForCausalLM", "LlamaModel"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		c.OutBias = f.biased("attention_bias", "attn_output", false)
		c.MLPBias = f.biased("mlp_bias", "ffn_gate", false)
		c.Rotation = f.rotation(c, graph.AdjacentPairs)
		if !f.isHF() { // Mistral in GGUF's naming
			f.windows(c, f.sizeOr("", "attention.sliding_window", 0), everyLayer)
			f.readExperts(c) // Mixtral likewise
		}
		return c
	},
	Build: preNorm,
}
