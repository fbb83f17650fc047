package model

import "github.com/ridge-llm/ridge/graph"

// qwen2 is Llama with biases on queries, keys and values (arXiv:2407.10671).
var qwen2 = Arch{
	Name: "qwen2",
	HF:   []string{"Qwen2ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.QKVBias = true
		c.Rotation = f.rotation(c, graph.HalfPairs)
		qwenWindows(f, c)
		return c
	},
	Build: preNorm,
}

// qwen3 normalises queries and keys head by head instead (arXiv:2505.09388).
var qwen3 = Arch{
	Name: "qwen3",
	HF:   []string{"Qwen3ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		c.OutBias = f.biased("attention_bias", "attn_output", false)
		c.QKNorm = true
		c.Rotation = f.rotation(c, graph.HalfPairs)
		qwenWindows(f, c)
		return c
	},
	Build: preNorm,
}

// qwenWindows gives the layers from max_window_layers on a window, when the model says that it uses one.
func qwenWindows(f *fields, c *Config) {
	if !f.isHF() || !f.flag("use_sliding_window", false) {
		return
	}
	from := f.sizeOr("max_window_layers", "", 28)
	f.windows(c, f.sizeOr("sliding_window", "", 4096), func(i int) bool { return i >= from })
}
