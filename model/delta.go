package model

import (
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// deltaNames are Hugging Face's names of gated delta layers and of the norm behind them.
var deltaNames = map[string]string{
	"blk.N.post_attention_norm": "model.layers.N.post_attention_layernorm",
	"blk.N.attn_qkv":            "model.layers.N.linear_attn.in_proj_qkv",
	"blk.N.attn_gate":           "model.layers.N.linear_attn.in_proj_z",
	"blk.N.ssm_alpha":           "model.layers.N.linear_attn.in_proj_a",
	"blk.N.ssm_beta":            "model.layers.N.linear_attn.in_proj_b",
	"blk.N.ssm_conv1d":          "model.layers.N.linear_attn.conv1d",
	"blk.N.ssm_a":               "model.layers.N.linear_attn.A_log",
	"blk.N.ssm_dt.bias":         "model.layers.N.linear_attn.dt_bias",
	"blk.N.ssm_norm":            "model.layers.N.linear_attn.norm",
	"blk.N.ssm_out":             "model.layers.N.linear_attn.out_proj",
}

// gatedDelta is a gated delta layer on normalised rows h: projections, convolution, the rule, a norm of each head with a gate, output.
func (l layer) gatedDelta(h *graph.Value) *graph.Value {
	o := l.c.Delta
	qkv, heads := graph.Axis{Name: "qkv", Count: o.Width(), Size: 1}, graph.Axis{Name: "values", Count: o.ValueHeads, Size: 1}
	values := graph.Axis{Name: "values", Count: o.ValueHeads, Size: o.ValueSize}
	x := l.linear("attn_qkv", h, qkv, false)
	gate := l.linear("attn_gate", h, values, false)
	alpha, beta := l.linear("ssm_alpha", h, heads, false), l.linear("ssm_beta", h, heads, false)
	width := graph.Axis{Name: "width", Count: l.c.ConvWidth, Size: 1}
	x = l.b.CausalConv(l.name("conv"), l.i, x, l.matrix("ssm_conv1d", qkv, width), nil, true)
	y := l.b.GatedDelta(l.name("delta"), l.i, x, alpha, beta, o, l.b.Vector(l.name("ssm_a"), heads), l.bias("ssm_dt", heads, true))
	y = l.b.GroupRMSNorm(l.name("ssm_norm"), y, l.b.Vector(l.name("ssm_norm.weight"), graph.Axis{Name: "head", Count: 1, Size: o.ValueSize}), l.c.NormEps)
	return l.linear("ssm_out", l.b.ActMul(l.name("delta_gated"), gate, y, graph.Silu), l.c.hidden(), false)
}

// gatePart finds queries and gates of attention in one matrix: of each head, its query and then its gate.
func gatePart(stem string, c *Config) (of string, cut func(recipe.Recipe) recipe.Recipe) {
	from := 0
	switch stem {
	case "blk.N.attn_q_gate.weight":
		from = c.HeadDim
	case "blk.N.attn_q.weight":
	default:
		return "", nil
	}
	return "blk.N.attn_q.weight", func(t recipe.Recipe) recipe.Recipe {
		return recipe.RowsOfEach{Of: t, Count: c.Heads, From: from, To: from + c.HeadDim}
	}
}

// isFused reports whether a recipe is a matrix that has queries, keys, values and gates.
func isFused(t recipe.Recipe) bool {
	name, ok := t.(recipe.Tensor)
	return ok && strings.HasSuffix(string(name), "in_proj_qkvz.weight")
}

// perKeyHead is the rows of queries, keys and values, or of gates, of a matrix that has all four of each key head together.
func (c *Config) perKeyHead(stem string, t recipe.Recipe) recipe.Recipe {
	o := c.Delta
	values := o.ValueHeads / o.KeyHeads * o.ValueSize
	all := 2*o.KeySize + 2*values // rows of a key head
	var index []int
	rows := func(from, n int) {
		for h := range o.KeyHeads {
			for i := range n {
				index = append(index, h*all+from+i)
			}
		}
	}
	if stem == "blk.N.attn_gate.weight" {
		rows(2*o.KeySize+values, values)
	} else {
		rows(0, o.KeySize)
		rows(o.KeySize, o.KeySize)
		rows(2*o.KeySize, values)
	}
	return recipe.Permute{Of: t, Index: index}
}

// everyNthAttention gives every n-th layer attention and the others a state, unless layer_types says otherwise, or in GGUF a list of the layers
// that have a state: llama.cpp goes by that where it is there.
func (f *fields) everyNthAttention(c *Config, n int) {
	const key = "attention.recurrent_layers"
	list, listed := f.metaList(key).([]bool)
	switch {
	case f.isHF() && len(f.strings("layer_types")) > 0:
		f.recurrentLayers(c)
	case listed:
		if f.eachLayer(c, len(list)-f.sizeOr("", "nextn_predict_layers", 0), f.arch+"."+key) { // it counts layers that predict further tokens
			c.Recurrent = slices.Clone(list[:c.Layers])
		}
	case c.Layers <= maxLayers:
		c.Recurrent = make([]bool, c.Layers)
		for i := range c.Recurrent {
			c.Recurrent[i] = (i+1)%max(n, 1) != 0
		}
	}
	f.note(key, c.Recurrent)
	f.note("attention.head_count_kv", uint32(c.KVHeads))
}
