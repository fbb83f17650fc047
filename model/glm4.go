package model

// glm4 is GLM-4 0414: norms before and behind each block, half of each head rotated, in neighbouring pairs.
var glm4 = Arch{
	Name: "glm4",
	HF:   []string{"Glm4ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.FusedGate = true
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		f.partialRotary(0.5)
		c.Rotation = f.interleaved(c)
		return c
	},
	Names: map[string]string{
		"blk.N.post_attention_norm": "model.layers.N.post_self_attn_layernorm",
		"blk.N.ffn_norm":            "model.layers.N.post_attention_layernorm",
		"blk.N.post_ffw_norm":       "model.layers.N.post_mlp_layernorm",
		"blk.N.ffn_up":              "model.layers.N.mlp.gate_up_proj",
	},
	Build: sandwich,
}
