package model

// granite is IBM's Granite 3 and 4 without recurrent layers (arXiv:2408.13359 has the multipliers).
var granite = Arch{
	Name: "granite",
	HF:   []string{"GraniteForCausalLM"},
	Read: func(f *fields) *Config {
		c := llama.Read(f)
		multipliers(f, c)
		return c
	},
	Build: preNorm,
}

// multipliers reads Granite's. The stream divided by the residual multiplier r is the same model without it: every block reads the
// stream through a norm, which undoes the division, with eps divided by r².
func multipliers(f *fields, c *Config) {
	c.AttnScale = f.floatOr("attention_multiplier", "attention.scale", c.AttnScale)
	residual := f.floatOr("residual_multiplier", "residual_scale", 1)
	logits := f.floatOr("logits_scaling", "logit_scale", 1)
	embedding := f.floatOr("embedding_multiplier", "embedding_scale", 1)
	if residual <= 0 || logits == 0 {
		f.fail("its residual multiplier is %g and its logits are divided by %g; numbers above 0 are supported", residual, logits)
		return
	}
	if residual != 1 { // these norms read no stream
		c.GateEps = c.NormEps
	}
	c.EmbScale, c.NormEps = embedding/residual, c.NormEps/(residual*residual)
	if logits != 1 {
		c.LogitScale = 1 / logits
	}
}
