package model

import (
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

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
		c.ConvBias = f.switched("mamba_conv_bias", "blk.0.ssm_conv1d.bias", true)
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
	Recipe: falconRecipe,
}

// readMultipliers reads the multipliers. GGUF's files have weights that are multiplied by them, as llama.cpp's converter does, and so are those of Hugging
// Face here as they are read; a table that is embedding and head at once cannot be, and the graph multiplies.
func readMultipliers(f *fields, c *Config) {
	if !f.isHF() {
		return
	}
	one := func(name string) float32 { return float32(f.floatOr(name, "", 1)) }
	embedding, head := one("embedding_multiplier"), one("lm_head_multiplier")
	in, out, ssmIn := one("attention_in_multiplier"), one("attention_out_multiplier"), one("ssm_in_multiplier")
	ssm, mlp := f.multipliers("ssm_multipliers", 5), f.multipliers("mlp_multipliers", 2) // of gates, inputs, B, C and steps; of gates and what comes down
	inner, states := c.SSM.Heads*c.SSM.HeadSize, c.SSM.Groups*c.SSM.StateSize
	c.Multiplied = map[string][]recipe.Factor{
		"blk.N.attn_q.weight": all(in), "blk.N.attn_k.weight": all(in * one("key_multiplier")), "blk.N.attn_v.weight": all(in), "blk.N.attn_output.weight": all(out),
		"blk.N.ssm_in.weight": {
			{Rows: inner, Number: ssmIn * ssm[0]}, {Rows: inner, Number: ssmIn * ssm[1]}, {Rows: states, Number: ssmIn * ssm[2]},
			{Rows: states, Number: ssmIn * ssm[3]}, {Rows: c.SSM.Heads, Number: ssmIn * ssm[4]},
		},
		"blk.N.ssm_out.weight":  all(one("ssm_out_multiplier")),
		"blk.N.ffn_gate.weight": all(mlp[0]), "blk.N.ffn_down.weight": all(mlp[1]),
	}
	if !c.Tied {
		c.Multiplied["token_embd.weight"], c.Multiplied["output.weight"] = all(embedding), all(head)
		return
	}
	if embedding != 1 {
		c.EmbScale = float64(embedding)
	}
	if head != 1 {
		c.LogitScale = float64(head)
	}
}

// all multiplies all rows by x.
func all(x float32) []recipe.Factor { return []recipe.Factor{{Number: x}} }

// multipliers reads a list of so many numbers; without the field they are 1.
func (f *fields) multipliers(name string, n int) []float32 {
	numbers := make([]float32, n)
	v := f.value(name)
	list, ok := v.([]any)
	if v != nil && (!ok || len(list) != n) {
		f.fail("field %s is %v; there must be a list of %d numbers", name, v, n)
	}
	for i := range numbers {
		numbers[i] = 1
		if len(list) == n {
			m, ok := number(list[i])
			if !ok {
				f.fail("field %s has %v, which is no number", name, list[i])
			}
			numbers[i] = float32(m)
		}
	}
	return numbers
}

// falconRecipe multiplies what is not multiplied by 1.
func falconRecipe(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
	by := c.Multiplied[stem]
	if slices.ContainsFunc(by, func(f recipe.Factor) bool { return f.Number != 1 }) {
		return recipe.Multiplied{Of: t, By: by}
	}
	return ssmRecipe(stem, t, c)
}
