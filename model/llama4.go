package model

import (
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// llama4 is Llama 4's text model: three layers of four look back within a chunk and rotate, neighbouring pairs, with queries and keys
// normalised after that; the fourth looks back all the way, does not rotate, and its queries grow with their positions. A row passes one
// expert, multiplied by its score before, and one that every row passes.
var llama4 = Arch{
	Name: "llama4",
	HF:   []string{"Llama4ForCausalLM", "Llama4ForConditionalGeneration"},
	Read: func(f *fields) *Config {
		f.renamed("intermediate_size", "moe_intermediate_size") // of experts; that of other layers is
		if f.isHF() && f.value("intermediate_size_mlp") != nil {
			f.hf["intermediate_size"] = f.value("intermediate_size_mlp")
		}
		c := llamaLike(f)
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		c.OutBias = f.biased("attention_bias", "attn_output", false)
		c.Rotation = f.interleaved(c)
		f.noRope(c)
		f.readExperts(c)
		c.ExpertFFN = f.size("moe_intermediate_size", "expert_feed_forward_length")
		c.SharedFFN, c.ScaledInput = c.ExpertFFN, true
		if c.Experts.TopK != 1 {
			f.fail("each token passes %d experts (num_experts_per_tok); 1 is supported", c.Experts.TopK)
		}
		c.UnitQKNorm, c.LateQKNorm = c.Experts.Experts != 128, true // GGUF files leave readers to know it
		if f.isHF() {
			c.UnitQKNorm = f.flag("use_qk_norm", true)
		}
		f.expertLayers(c)
		f.chunks(c)
		tuned := f.value("attn_temperature_tuning") // true, or a number in older files
		if n, ok := number(tuned); tuned == nil || tuned == true || ok && n != 0 {
			c.QueryGrowth = graph.Growth{Beta: f.floatOr("attn_scale", "", 0.1), Every: f.sizeOr("floor_scale", "", 8192), From: 1}
			if c.QueryGrowth.Every < 1 {
				f.fail("field floor_scale is 0; 1 and more are supported")
			}
		} else if tuned != false && !ok {
			f.fail("field attn_temperature_tuning is %v and true or false is wanted", tuned)
		}
		return c
	},
	Names: map[string]string{
		"blk.N.ffn_gate_inp":         "model.layers.N.feed_forward.router",
		"blk.N.ffn_gate":             "model.layers.N.feed_forward.gate_proj",
		"blk.N.ffn_up":               "model.layers.N.feed_forward.up_proj",
		"blk.N.ffn_down":             "model.layers.N.feed_forward.down_proj",
		"blk.N.ffn_gate_shexp":       "model.layers.N.feed_forward.shared_expert.gate_proj",
		"blk.N.ffn_up_shexp":         "model.layers.N.feed_forward.shared_expert.up_proj",
		"blk.N.ffn_down_shexp":       "model.layers.N.feed_forward.shared_expert.down_proj",
		"blk.N.ffn_gate_exps.weight": "model.layers.N.feed_forward.experts.gate_up_proj",
		"blk.N.ffn_up_exps.weight":   "model.layers.N.feed_forward.experts.gate_up_proj",
		"blk.N.ffn_down_exps.weight": "model.layers.N.feed_forward.experts.down_proj",
	},
	Recipe: func(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
		n := c.Experts.Experts
		part := func(row int) recipe.Recipe { // of matrices in × out, gates beside ups
			return recipe.Slice{Of: recipe.Transpose{Of: t, Count: n}, Count: n, Matrices: n, Row: row, Rows: c.ExpertFFN, Cols: c.Hidden}
		}
		switch stem {
		case "blk.N.ffn_gate_exps.weight":
			return part(0)
		case "blk.N.ffn_up_exps.weight":
			return part(c.ExpertFFN)
		case "blk.N.ffn_down_exps.weight":
			return recipe.Transpose{Of: t, Count: n}
		}
		return t
	},
	Build: preNorm,
}

// expertLayers reads which layers have experts: those that moe_layers lists, or every so many.
func (f *fields) expertLayers(c *Config) {
	every := f.sizeOr("interleave_moe_layer_step", "interleave_moe_layer_step", 1)
	list, listed := f.value("moe_layers").([]any)
	if every < 1 || c.Layers > maxLayers {
		f.fail("every %d layers have experts (interleave_moe_layer_step); 1 and more are supported", every)
		return
	}
	c.Dense = make([]bool, c.Layers)
	for i := range c.Dense {
		c.Dense[i] = listed || (i+1)%every != 0
	}
	for _, v := range list {
		n, ok := number(v)
		if i := int(n); ok && float64(i) == n && i >= 0 && i < c.Layers {
			c.Dense[i] = false
			continue
		}
		f.fail("field moe_layers lists layer %v of %d", v, c.Layers)
		return
	}
	for i, dense := range c.Dense {
		if listed && f.value("interleave_moe_layer_step") != nil && dense != ((i+1)%every != 0) {
			f.fail("field moe_layers and interleave_moe_layer_step (%d) do not agree about layer %d", every, i)
			return
		}
	}
}

// chunks gives the layers that rotate, or those that layer_types calls chunked_attention, the length of their chunks.
func (f *fields) chunks(c *Config) {
	length := f.sizeOr("attention_chunk_size", "attention.sliding_window", 8192)
	types := f.strings("layer_types")
	if len(types) != 0 && len(types) != c.Layers {
		f.fail("field layer_types lists %d layers and num_hidden_layers says %d", len(types), c.Layers)
		return
	}
	c.Chunked = true
	for i := range c.Windows {
		chunked := !c.NoRope[i]
		if len(types) > 0 {
			if chunked = types[i] == "chunked_attention"; !chunked && types[i] != "full_attention" {
				f.fail("field layer_types has %q; full_attention and chunked_attention are supported", types[i])
			}
		}
		if chunked {
			c.Windows[i] = length
		}
	}
}
