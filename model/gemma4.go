package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// gemma4 is Gemma 4's text model: layers without a window have heads of another size, of which the first quarter of the pairs rotate, and may
// take their keys as values; small models have embeddings of each layer's own and last layers that attend to keys and values of an earlier
// one, the 26B model experts beside its feed-forward blocks.
var gemma4 = Arch{
	Name: "gemma4",
	HF:   []string{"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration"},
	TextDefaults: map[string]any{
		"vocab_size": 262144.0, "hidden_size": 2304.0, "intermediate_size": 9216.0, "num_hidden_layers": 30.0, "num_attention_heads": 8.0,
		"num_key_value_heads": 4.0, "head_dim": 256.0, "global_head_dim": 512.0, "max_position_embeddings": 131072.0, "sliding_window": 512.0,
		"hidden_size_per_layer_input": 256.0, "vocab_size_per_layer_input": 262144.0,
	},
	Read: func(f *fields) *Config {
		f.useHeads("head_dim", "attention.key_length_swa", "attention.value_length_swa", "attention.key_length", "attention.value_length")
		widths, heads := f.perLayer("intermediate_size", "feed_forward_length"), f.perLayer("", "attention.head_count_kv")
		c := gemmaLike(f)
		c.AttnScale = 1
		c.LogitCap = f.floatOr("final_logit_softcapping", "final_logit_softcapping", 0)
		f.listedWindows(c, f.sizeOr("sliding_window", "attention.sliding_window", 512), 6)
		c.SharedKV = f.sizeOr("num_kv_shared_layers", "attention.shared_kv_layers", 0)
		f.checkShared(c)
		f.fullHeads(c, heads)
		f.proportionalRotations(c)
		f.readPerLayer(c, 256)
		f.doubleWidths(c, widths)
		f.besideExperts(c)
		if b := f.word("use_bidirectional_attention"); b != "" && b != "vision" {
			f.fail("field use_bidirectional_attention is %q; vision, which changes nothing for text, is supported", b)
		}
		return c
	},
	Names: merged(sandwichNames, gemmaLayers, map[string]string{
		"blk.N.pre_ffw_norm_2":       "model.layers.N.pre_feedforward_layernorm_2",
		"blk.N.post_ffw_norm_1":      "model.layers.N.post_feedforward_layernorm_1",
		"blk.N.post_ffw_norm_2":      "model.layers.N.post_feedforward_layernorm_2",
		"blk.N.ffn_gate_inp":         "model.layers.N.router.proj",
		"blk.N.ffn_gate_inp.scale":   "model.layers.N.router.scale",
		"blk.N.ffn_down_exps.scale":  "model.layers.N.router.per_expert_scale",
		"blk.N.ffn_gate_exps.weight": "model.layers.N.experts.gate_up_proj",
		"blk.N.ffn_up_exps.weight":   "model.layers.N.experts.gate_up_proj",
		"blk.N.ffn_down_exps.weight": "model.layers.N.experts.down_proj",
	}),
	Recipe: func(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
		switch stem { // a matrix each of gates and ups, out × in
		case "blk.N.ffn_gate_exps.weight":
			return recipe.RowsOfEach{Of: t, Count: c.Experts.Experts, From: 0, To: c.ExpertFFN}
		case "blk.N.ffn_up_exps.weight":
			return recipe.RowsOfEach{Of: t, Count: c.Experts.Experts, From: c.ExpertFFN, To: 2 * c.ExpertFFN}
		}
		return t
	},
	Build: buildGemma4,
}

// buildGemma4 is a decoder with norms before and after each block.
func buildGemma4(b *graph.Builder, c *Config) *graph.Value {
	x, own := embedding(b, c), (*graph.Value)(nil)
	if c.PerLayer > 0 {
		own = perLayerEmbeddings(b, c, x)
	}
	stores := make([]*graph.Value, c.Layers)
	for i := range c.Layers {
		l := newLayer(b, c, i)
		x = l.add("attn_sum", x, l.norm("post_attention_norm", l.sharingAttention(l.norm("attn_norm", x), stores)))
		y := l.gatedOf(l.norm("ffn_norm", x), "", l.ffn(), false)
		if c.Experts.Experts > 0 {
			y = l.add("ffn_experts_sum", l.norm("post_ffw_norm_1", y), l.norm("post_ffw_norm_2", l.gemmaExperts(x)))
		}
		x = l.add("ffn_sum", x, l.norm("post_ffw_norm", y))
		if own != nil {
			x = l.add("inp_sum", x, l.perLayerInput(x, own))
		}
		if scale := l.name("layer_output_scale.weight"); b.Has(scale) {
			x = b.ScaleColumns(l.name("scaled"), x, b.Vector(scale, graph.Axis{Name: "one", Count: 1, Size: 1}))
		}
	}
	return head(b, c, x)
}

// gemmaExperts is the block of experts beside the feed-forward block, on the stream x that both read. The router normalises x by itself, and
// each expert's share is multiplied by a factor of its own.
func (l layer) gemmaExperts(x *graph.Value) *graph.Value {
	y := l.b.RMSNorm(l.name("router_norm"), x, l.b.Vector(l.name("ffn_gate_inp.scale"), x.Axis), l.c.NormEps)
	y = l.b.Scale(l.name("router_scaled"), y, 1/math.Sqrt(float64(l.c.Hidden)))
	shares := l.b.Route(l.name("ffn_shares"), l.linear("ffn_gate_inp", y, l.c.perExpert(), false), l.c.Route, nil)
	shares = l.b.ScaleColumns(l.name("ffn_shares_scaled"), shares, l.b.Vector(l.name("ffn_down_exps.scale"), l.c.perExpert()))
	stack := func(stem string, out, in graph.Axis) *graph.Weight {
		return l.b.Stack(l.name(stem), l.c.perExpert(), out, in)
	}
	hidden, ffn := l.c.hidden(), l.c.expertFFN()
	weights := []*graph.Weight{stack("ffn_gate_exps.weight", ffn, hidden), stack("ffn_up_exps.weight", ffn, hidden), stack("ffn_down_exps.weight", hidden, ffn)}
	return l.b.MoE(l.name("ffn_experts"), l.norm("pre_ffw_norm_2", x), shares, l.c.Experts, weights)
}

// besideExperts reads the experts that stand beside feed-forward blocks.
func (f *fields) besideExperts(c *Config) {
	if f.isHF() && !f.flag("enable_moe_block", false) {
		f.ignored("num_experts", "top_k_experts", "moe_intermediate_size")
		return
	}
	f.renamed("top_k_experts", "num_experts_per_tok")
	f.readExperts(c)
	if c.Experts.Experts == 0 {
		if f.isHF() {
			f.fail("field enable_moe_block is true and num_experts is not there")
		}
		return
	}
	c.ExpertFFN = f.size("moe_intermediate_size", "expert_feed_forward_length")
	if c.ExpertFFN < 1 || c.ExpertFFN > maxSize {
		f.fail("the width of its experts is %d; 1 to %d are possible", c.ExpertFFN, maxSize)
	}
	c.Experts.Shares, c.Route = true, graph.Route{TopK: c.Experts.TopK}
}
