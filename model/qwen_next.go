package model

import (
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// qwen3next is Qwen3-Next: three layers of four have gated delta rule, the others attention with a gate; experts in all of them. Its norms
// are stored without their one.
var qwen3next = Arch{
	Name: "qwen3next",
	HF:   []string{"Qwen3NextForCausalLM"},
	Read: func(f *fields) *Config {
		c := readQwenNext(f)
		f.gatedShared(c, true)
		return c
	},
	Build:  buildQwenNext,
	Names:  merged(qwen2moe.Names, deltaNames, map[string]string{"blk.N.attn_qkv": "model.layers.N.linear_attn.in_proj_qkvz", "blk.N.attn_gate": "model.layers.N.linear_attn.in_proj_qkvz", "blk.N.ssm_ba": "model.layers.N.linear_attn.in_proj_ba"}),
	Recipe: qwenNextRecipe,
	Part: func(stem string, c *Config) (string, func(recipe.Recipe) recipe.Recipe) {
		o, from := c.Delta, 0
		if o.KeyHeads == 0 {
			return "", nil
		}
		share := o.ValueHeads / o.KeyHeads
		switch stem { // of each key head, what β and then what g is made of for its value heads
		case "blk.N.ssm_alpha.weight":
			from = share
			fallthrough
		case "blk.N.ssm_beta.weight":
			return "blk.N.ssm_ba.weight", func(t recipe.Recipe) recipe.Recipe {
				return recipe.RowsOfEach{Of: t, Count: o.KeyHeads, From: from, To: from + share}
			}
		}
		return gatePart(stem, c)
	},
}

// qwen35 is Qwen3.5 and what has its architecture (3.6, 3.8): Qwen3-Next without experts, its projections apart. GGUF files have value heads
// in another order.
var qwen35 = Arch{
	Name:         "qwen35",
	HF:           []string{"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"},
	TextDefaults: map[string]any{},
	Read:         func(f *fields) *Config { return readQwen35(f, readQwenNext(f)) },
	Build:        buildQwenNext,
	Names:        deltaNames,
	Recipe:       qwenNextRecipe,
	Part:         gatePart,
}

// qwen35moe is Qwen3.5 with experts.
var qwen35moe = Arch{
	Name:         "qwen35moe",
	HF:           []string{"Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"},
	TextDefaults: map[string]any{},
	Read:         func(f *fields) *Config { return readQwen35(f, qwen3next.Read(f)) },
	Build:        buildQwenNext,
	Names:        merged(qwen2moe.Names, deltaNames),
	Recipe:       qwenNextRecipe,
	Part:         gatePart,
}

// readQwen35 notes in which order value heads are, and how many of the pairs rotate by each axis of an image's positions, which are one in texts:
// llama.cpp wants to know.
func readQwen35(f *fields, c *Config) *Config {
	sections := []int32{11, 11, 10, 0}
	if list, ok := f.object("rope_parameters")["mrope_section"].([]any); ok && len(list) < len(sections) {
		for i := range sections {
			n := 0.0
			if i < len(list) {
				n, _ = number(list[i])
			}
			sections[i] = int32(n)
		}
	}
	if own, ok := f.metaList("rope.dimension_sections").([]int32); ok {
		sections = own
	}
	f.note("rope.dimension_sections", sections)
	c.Delta.Tiled = !f.isHF() && c.Delta.ValueHeads != c.Delta.KeyHeads
	return c
}

// readQwenNext reads what Qwen3-Next and Qwen3.5 share.
func readQwenNext(f *fields) *Config {
	c := llamaLike(f)
	c.QKNorm, c.AttnGate = true, true
	c.HeadDim = f.sizeOr("head_dim", "attention.key_length", 256)
	f.only("attention_bias", false)
	c.Rotation = f.rotation(c, graph.HalfPairs)
	o := graph.GatedDelta{
		KeyHeads: f.size("linear_num_key_heads", "ssm.group_count"), KeySize: f.size("linear_key_head_dim", "ssm.state_size"),
		ValueHeads: f.size("linear_num_value_heads", "ssm.time_step_rank"),
	}
	o.ValueSize = f.sizeOr("linear_value_head_dim", "", f.sizeOr("", "ssm.inner_size", 0)/max(o.ValueHeads, 1))
	f.note("ssm.inner_size", uint32(o.ValueHeads*o.ValueSize))
	c.ConvWidth = f.size("linear_conv_kernel_dim", "ssm.conv_kernel")
	if o.KeyHeads < 1 || o.ValueHeads%max(o.KeyHeads, 1) != 0 || o.Width() > maxSize {
		f.fail("its %d value heads cannot share %d key heads equally", o.ValueHeads, o.KeyHeads)
		return c
	}
	c.Delta = o
	f.everyNthAttention(c, f.sizeOr("full_attention_interval", "full_attention_interval", 4))
	return c
}

// buildQwenNext is a decoder whose layers have attention or the gated delta rule.
func buildQwenNext(b *graph.Builder, c *Config) *graph.Value {
	return hybrid(b, c, layer.gatedDelta, "post_attention_norm")
}

// qwenNextRecipe: Qwen3-Next has queries, keys, values and gates of each key head together; norms lack their one, and decays are stored as
// logarithms.
func qwenNextRecipe(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
	switch {
	case stem == "blk.N.ssm_a":
		return recipe.NegExp{Of: t}
	case isNorm(stem) && stem != "blk.N.ssm_norm.weight":
		return recipe.PlusOne{Of: t}
	case c.Delta.KeyHeads > 0 && c.Experts.Experts > 0 && isFused(t):
		return c.perKeyHead(stem, t)
	}
	return t
}
