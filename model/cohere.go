package model

// cohere is Command R: LayerNorm without bias, both blocks of a layer beside one another, logits scaled.
var cohere = Arch{
	Name:  "command-r",
	HF:    []string{"CohereForCausalLM"},
	Read:  readCohere,
	Build: preNorm,
}

// cohere2 is Command R7B and Command A: three layers of four have a window, and only they rotate.
var cohere2 = Arch{
	Name: "cohere2",
	HF:   []string{"Cohere2ForCausalLM"},
	Read: func(f *fields) *Config {
		c := readCohere(f)
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 4096), f.pattern(4))
		f.notePattern(c)
		rotateWindowed(c)
		return c
	},
	Build: preNorm,
}

// rotateWindowed has layers without a window not rotate.
func rotateWindowed(c *Config) {
	c.NoRope = make([]bool, len(c.Windows))
	for i, w := range c.Windows {
		c.NoRope[i] = w == 0
	}
}

func readCohere(f *fields) *Config {
	c := layerNormed(f, "layer_norm_eps", false)
	c.Parallel, c.Tied = SharedNorm, f.tied(true)
	c.QKVBias = f.biased("attention_bias", "attn_q", false)
	c.OutBias = f.biased("attention_bias", "attn_output", false)
	c.LogitScale = f.floatOr("logit_scale", "logit_scale", 0.0625)
	c.Rotation = f.interleaved(c)
	if f.isHF() {
		f.only("use_qk_norm", false)
		f.only("use_parallel_block", true)
		f.only("use_gated_activation", true)
	} else if f.has("blk.0.attn_q_norm.weight") {
		f.fail("it normalises each head by a weight of its own (attn_q_norm), which is not supported")
	}
	return c
}
