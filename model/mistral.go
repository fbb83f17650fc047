package model

import "github.com/ridge-llm/ridge/graph"

// mistral is Llama with a window over the last sliding_window tokens (arXiv:2310.06825). GGUF files call it llama.
var mistral = Arch{
	Name: "llama",
	HF:   []string{"MistralForCausalLM", "MistralModel"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.Rotation = f.rotation(c, graph.AdjacentPairs)
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 0), everyLayer)
		return c
	},
	Build: preNorm,
}
