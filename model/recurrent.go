package model

import (
	"fmt"
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
