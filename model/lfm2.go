package model

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// lfm2 is LFM2 (Liquid AI, 2025): gated short convolutions in place of attention in most layers.
var lfm2 = Arch{
	Name: "lfm2",
	HF:   []string{"Lfm2ForCausalLM"},
	Read: func(f *fields) *Config {
		c := readLFM2(f)
		f.ignored("block_ffn_dim_multiplier", "block_multiple_of") // unless the width is adjusted by them
		if f.isHF() && f.flag("block_auto_adjust_ff_dim", true) {  // as transformers' Lfm2MLP does
			width := int(f.floatOr("block_ffn_dim_multiplier", "", 1) * float64(2*c.FFN/3))
			of := max(1, f.sizeOr("block_multiple_of", "", 256))
			c.FFN = (width + of - 1) / of * of
			f.note("feed_forward_length", uint32(c.FFN))
		}
		return c
	},
	Build: buildLFM2,
	Names: lfm2Names,
}

// readLFM2 reads what LFM2 with and without experts share.
func readLFM2(f *fields) *Config {
	c := llamaLike(f)
	c.NormEps = f.floatOr("norm_eps", "attention.layer_norm_rms_epsilon", 1e-5)
	c.Tied = f.tied(true)
	c.QKNorm = true
	c.Rotation = f.rotation(c, graph.HalfPairs)
	c.ConvWidth = f.size("conv_L_cache", "shortconv.l_cache")
	f.recurrentLayers(c)
	if f.isHF() {
		c.ConvBias = f.flag("conv_bias", false)
	} else {
		c.ConvBias = f.has(fmt.Sprintf("blk.%d.shortconv.conv.bias", c.firstRecurrent()))
	}
	c.ProjBias = c.ConvBias
	return c
}

// buildLFM2 is a hybrid of attention and short convolutions. Its last norm has a name of its own.
func buildLFM2(b *graph.Builder, c *Config) *graph.Value {
	x := hybridLayers(b, c, layer.shortConv, "ffn_norm")
	b.Layer(graph.NoLayer)
	x = b.RMSNorm("output_norm", b.SelectRows("selected", x), b.Vector("token_embd_norm.weight", c.hidden()), c.NormEps)
	return logits(b, c, x)
}

// shortConv is out(C × conv(B × x)), with B, C and x in one matrix.
func (l layer) shortConv(h *graph.Value) *graph.Value {
	channels := graph.Axis{Name: "channels", Count: l.c.Hidden, Size: 1}
	part := func(name string, i int) *graph.Value {
		return l.linearPart(name, "shortconv.in_proj", h, i*l.c.Hidden, channels)
	}
	in, out, x := part("conv_b", 0), part("conv_c", 1), part("conv_x", 2)
	width := graph.Axis{Name: "width", Count: l.c.ConvWidth, Size: 1}
	x = l.b.ActMul(l.name("conv_in"), in, x, graph.Identity)
	x = l.b.CausalConv(l.name("conv"), l.i, x, l.matrix("shortconv.conv", channels, width), l.bias("shortconv.conv", channels, l.c.ConvBias), false)
	return l.linear("shortconv.out_proj", l.b.ActMul(l.name("conv_out"), out, x, graph.Identity), l.c.hidden(), l.c.ProjBias)
}

var lfm2Names = map[string]string{
	"token_embd_norm":          "model.embedding_norm",
	"blk.N.attn_norm":          "model.layers.N.operator_norm",
	"blk.N.ffn_norm":           "model.layers.N.ffn_norm",
	"blk.N.attn_output":        "model.layers.N.self_attn.out_proj",
	"blk.N.attn_q_norm":        "model.layers.N.self_attn.q_layernorm",
	"blk.N.attn_k_norm":        "model.layers.N.self_attn.k_layernorm",
	"blk.N.shortconv.in_proj":  "model.layers.N.conv.in_proj",
	"blk.N.shortconv.conv":     "model.layers.N.conv.conv",
	"blk.N.shortconv.out_proj": "model.layers.N.conv.out_proj",
	"blk.N.ffn_gate":           "model.layers.N.feed_forward.w1",
	"blk.N.ffn_up":             "model.layers.N.feed_forward.w3",
	"blk.N.ffn_down":           "model.layers.N.feed_forward.w2",
}

// lfm2moe is LFM2 with experts in all layers but the first, chosen by sigmoids with a bias.
var lfm2moe = Arch{
	Name: "lfm2moe",
	HF:   []string{"Lfm2MoeForCausalLM"},
	Read: func(f *fields) *Config {
		c := readLFM2(f)
		f.readExperts(c)
		f.readRouting(c, graph.Route{Sigmoid: true})
		c.DenseLayers = f.sizeOr("num_dense_layers", "leading_dense_block_count", 0)
		if f.isHF() {
			c.RouteBias = f.flag("use_expert_bias", true)
		}
		return c
	},
	Build: buildLFM2,
	Names: merged(lfm2Names, map[string]string{
		"blk.N.ffn_gate_inp":     "model.layers.N.feed_forward.gate",
		"blk.N.exp_probs_b.bias": "model.layers.N.feed_forward.expert_bias",
		"blk.N.ffn_gate.E":       "model.layers.N.feed_forward.experts.E.w1",
		"blk.N.ffn_up.E":         "model.layers.N.feed_forward.experts.E.w3",
		"blk.N.ffn_down.E":       "model.layers.N.feed_forward.experts.E.w2",
	}),
}
