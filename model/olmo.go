package model

import "github.com/ridge-llm/ridge/graph"

// postNormNames are Hugging Face's names of norms behind each block.
var postNormNames = map[string]string{
	"blk.N.post_attention_norm": "model.layers.N.post_attention_layernorm",
	"blk.N.post_ffw_norm":       "model.layers.N.post_feedforward_layernorm",
}

// olmo2 is OLMo 2 (arXiv:2501.00656): norms behind the blocks, and over all of the queries and all of the keys.
var olmo2 = Arch{
	Name: "olmo2",
	HF:   []string{"Olmo2ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.WholeQKNorm = true
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		c.OutBias = f.biased("attention_bias", "attn_output", false)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		if !f.isHF() { // OLMo 3 in GGUF's naming
			olmoWindows(f, c)
		}
		return c
	},
	Names: postNormNames,
	Build: postNorm,
}

// olmo3 has windows on three layers of four, which rotate without scaling. GGUF files call it olmo2.
var olmo3 = Arch{
	Name: "olmo2",
	HF:   []string{"Olmo3ForCausalLM"},
	Read: func(f *fields) *Config {
		if both := f.object("rope_parameters"); both["full_attention"] != nil {
			f.hf["rope_parameters"] = f.part(both, "full_attention")
		}
		c := olmo2.Read(f)
		olmoWindows(f, c)
		return c
	},
	Names: postNormNames,
	Build: postNorm,
}

// olmoWindows reads which layers have a window.
func olmoWindows(f *fields, c *Config) {
	window := f.sizeOr("sliding_window", "attention.sliding_window", 0)
	if window == 0 {
		return
	}
	f.windows(c, window, f.pattern(4))
	f.notePattern(c)
	if c.Rotation.Scaling.Kind != graph.NoScaling {
		local := *c.Rotation
		local.Name, local.Scaling = "local_angles", graph.Scaling{}
		c.Windowed = &local
	}
}

// exaone4 is LG's EXAONE 4 (arXiv:2507.11407): norms behind the blocks and on each head; in models with windows only layers with one rotate.
var exaone4 = Arch{
	Name: "exaone4",
	HF:   []string{"Exaone4ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.QKNorm = true
		c.Rotation = f.rotation(c, graph.HalfPairs)
		if window := f.sizeOr("sliding_window", "attention.sliding_window", 0); window > 0 {
			f.windows(c, window, f.pattern(4))
			f.notePattern(c)
			rotateWindowed(c)
		}
		return c
	},
	Names: postNormNames,
	Build: postNorm,
}
