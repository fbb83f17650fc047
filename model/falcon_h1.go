package model

import "github.com/ridge-llm/ridge/graph"

// falconH1 is Falcon-H1 (arXiv:2507.22448): attention and Mamba 2 side by side in every layer.
var falconH1 = Arch{
	Name: "falcon-h1",
	HF:   []string{"FalconH1ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		f.readSSM(c, "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
		if c.SSMNorm = f.switched("mamba_rms_norm", "blk.0.ssm_norm.weight", false); c.SSMNorm {
			c.NormGroups = c.SSM.Groups
		}
		if c.SSMNorm && f.isHF() && f.flag("mamba_norm_before_gate", true) {
			f.fail("field mamba_norm_before_gate is true; a norm behind the gate is supported")
		}
		for _, name := range []string{"attention_bias", "mamba_proj_bias", "mlp_bias", "projectors_bias"} {
			f.only(name, false)
		}
		f.only("mamba_conv_bias", true)
		readMultipliers(f, c)
		f.ignored("mamba_chunk_size", "mamba_expand", "mamba_use_mlp", "num_logits_to_keep", "mamba_d_ssm", "mamba_norm_before_gate")
		return c
	},
	Build: func(b *graph.Builder, c *Config) *graph.Value {
		x := embedding(b, c)
		for i := range c.Layers {
			l := newLayer(b, c, i)
			h := l.norm("attn_norm", x)
			mixed := l.add("mixed", l.mamba2(h), l.selfAttention(h))
			x = l.add("attn_sum", x, mixed)
			x = l.add("ffn_sum", x, l.feedForward(l.norm("ffn_norm", x)))
		}
		return head(b, c, x)
	},
	Names: merged(ssmNames("model.layers.N.mamba"), map[string]string{
		"output_norm":    "model.final_layernorm",
		"blk.N.ffn_norm": "model.layers.N.pre_ff_layernorm",
		"blk.N.ffn_gate": "model.layers.N.feed_forward.gate_proj",
		"blk.N.ffn_up":   "model.layers.N.feed_forward.up_proj",
		"blk.N.ffn_down": "model.layers.N.feed_forward.down_proj",
	}),
	Recipe: ssmRecipe,
}

// readMultipliers reads the multipliers that change no weight's shape. llama.cpp's converter has multiplied the weights by the others, and
// with Hugging Face's names they must be 1.
func readMultipliers(f *fields, c *Config) {
	if !f.isHF() {
		return
	}
	if m := f.floatOr("embedding_multiplier", "", 1); m != 1 {
		c.EmbScale = m
	}
	if m := f.floatOr("lm_head_multiplier", "", 1); m != 1 {
		c.LogitScale = m
	}
	c.AttnScale *= f.floatOr("key_multiplier", "", 1)
	for _, name := range []string{"attention_in_multiplier", "attention_out_multiplier", "ssm_in_multiplier", "ssm_out_multiplier"} {
		if m := f.floatOr(name, "", 1); m != 1 {
			f.fail("field %s is %g; 1 is supported; convert the model to GGUF, which multiplies weights by it", name, m)
		}
	}
	for _, name := range []string{"ssm_multipliers", "mlp_multipliers"} {
		list, _ := f.value(name).([]any)
		for _, v := range list {
			if m, ok := number(v); !ok || m != 1 {
				f.fail("field %s has %v; 1 is supported; convert the model to GGUF, which multiplies weights by it", name, v)
			}
		}
	}
}
