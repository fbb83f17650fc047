package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/graph"
)

// hybrid is preNorm in which layers that keep a state have another block in place of attention; ffnNorm is the name of the second norm.
func hybrid(b *graph.Builder, c *Config, recurrent func(layer, *graph.Value) *graph.Value, ffnNorm string) *graph.Value {
	return head(b, c, hybridLayers(b, c, recurrent, ffnNorm))
}

// hybridLayers is hybrid without its head.
func hybridLayers(b *graph.Builder, c *Config, recurrent func(layer, *graph.Value) *graph.Value, ffnNorm string) *graph.Value {
	x := embedding(b, c)
	for i := range c.Layers {
		l, mix := newLayer(b, c, i), layer.selfAttention
		if c.Recurrent[i] {
			mix = recurrent
		}
		x = l.add("attn_sum", x, mix(l, l.norm("attn_norm", x)))
		x = l.add("ffn_sum", x, l.feedForward(l.norm(ffnNorm, x)))
	}
	return x
}

// recurrentLayers reads which layers keep a state and no keys and values: by layer_types, or in GGUF by their number of key heads, 0.
func (f *fields) recurrentLayers(c *Config) {
	if c.Layers > maxLayers || f.err != nil {
		return
	}
	c.Recurrent = make([]bool, c.Layers)
	if !f.isHF() {
		list, _ := f.gguf[f.arch+".attention.head_count_kv"].([]int32)
		if len(list) != c.Layers {
			f.fail("field %s.attention.head_count_kv lists %d layers and block_count says %d", f.arch, len(list), c.Layers)
			return
		}
		for i, heads := range list {
			c.Recurrent[i] = heads == 0
		}
		return
	}
	types := f.strings("layer_types")
	if len(types) != c.Layers {
		f.fail("field layer_types lists %d layers and num_hidden_layers says %d", len(types), c.Layers)
		return
	}
	heads := make([]int32, c.Layers)
	for i, t := range types {
		switch t {
		case "conv", "mamba", "linear_attention":
			c.Recurrent[i] = true
		case "attention", "full_attention":
			heads[i] = int32(c.KVHeads)
		default:
			f.fail("field layer_types has %q; conv, mamba, linear_attention, attention and full_attention are supported", t)
		}
	}
	f.note("attention.head_count_kv", heads)
}

// recurrentBiases reads which biases the convolutions and projections of state space layers have: by fields, or in GGUF by the tensors of the first such layer.
func (f *fields) recurrentBiases(c *Config, conv, proj string) {
	if f.isHF() {
		c.ConvBias, c.ProjBias = f.flag(conv, true), f.flag(proj, false)
		return
	}
	first := c.firstRecurrent()
	c.ConvBias, c.ProjBias = f.has(fmt.Sprintf("blk.%d.ssm_conv1d.bias", first)), f.has(fmt.Sprintf("blk.%d.ssm_in.bias", first))
}

// firstRecurrent is the first layer that keeps a state; 0 if none does.
func (c *Config) firstRecurrent() int { return max(slices.Index(c.Recurrent, true), 0) }

// linearPart is a product with rows from one on of a projection that holds several, with their part of its bias if it has one.
func (l layer) linearPart(name, of string, x *graph.Value, from int, out graph.Axis) *graph.Value {
	var bias *graph.Weight
	if l.c.ProjBias {
		bias = l.b.VectorPart(l.name(of)+".bias", from, out)
	}
	return l.b.Linear(l.name(name), x, l.b.Part(l.name(of+".weight"), from, out, x.Axis), bias)
}

// denseByTensors is which layers of a GGUF file have no experts.
func (f *fields) denseByTensors(c *Config) []bool {
	dense := make([]bool, len(c.Windows))
	for i := range dense {
		dense[i] = !f.has(fmt.Sprintf("blk.%d.ffn_gate_inp.weight", i))
	}
	return dense
}

// isRecurrentVector reports whether a weight is one of the small ones of recurrent layers, which no file has in a block format.
func isRecurrentVector(name string) bool {
	for _, part := range []string{".ssm_a", ".ssm_d", ".ssm_dt", ".ssm_conv1d", ".ssm_conv1d_q", ".ssm_conv1d_k", ".ssm_conv1d_v", ".shortconv.conv"} {
		if strings.HasSuffix(strings.TrimSuffix(name, ".weight"), part) {
			return true
		}
	}
	return false
}
