package model

import (
	"fmt"
	"reflect"

	"github.com/ridge-llm/ridge/graph"
)

// kimiLayers reads which layers have the delta rule, and its sizes: in config.json from linear_attn_config, whose layers count from 1, which
// transformers' files say a second time.
func (f *fields) kimiLayers(c *Config) {
	o := graph.KimiDelta{Heads: c.Heads, Size: f.sizeOr("", "kda.head_dim", 0)}
	c.ConvWidth = f.sizeOr("", "ssm.conv_kernel", 0)
	if f.isHF() {
		own := f.object("linear_attn_config")
		size := func(name, again string, at *int) {
			n, ok := number(own[name])
			if *at = int(n); !ok || n != float64(*at) || n < 1 || n > maxSize {
				f.fail("field linear_attn_config.%s is %v; 1 to %d are possible", name, own[name], maxSize)
			}
			if v := f.sizeOr(again, "", *at); v != *at {
				f.fail("field %s is %d, and linear_attn_config says %d", again, v, *at)
			}
		}
		size("num_heads", "linear_num_heads", &o.Heads)
		size("head_dim", "linear_head_dim", &o.Size)
		size("short_conv_kernel_size", "linear_conv_kernel_dim", &c.ConvWidth)
		f.kimiTypes(c, own)
		f.note("kda.head_dim", uint32(o.Size))
		f.note("ssm.conv_kernel", uint32(c.ConvWidth))
	}
	if f.recurrentLayers(c); f.err != nil {
		return
	}
	if o.Heads != c.Heads {
		f.fail("its delta layers have %d heads and its attention %d; as many are supported", o.Heads, c.Heads)
	}
	if o.Size < 1 || c.ConvWidth < 2 || c.ConvWidth > maxSize || o.Heads > maxSize/o.Size || o.Size > maxSize/o.Size {
		f.fail("its delta layers have %d heads of %d and convolutions over %d tokens, which is not possible", o.Heads, o.Size, c.ConvWidth)
	}
	c.KDA = o
}

// kimiTypes makes layer_types of the lists of layers, or compares them.
func (f *fields) kimiTypes(c *Config, own map[string]any) {
	types := make([]any, c.Layers)
	for field, kind := range map[string]string{"full_attn_layers": "full_attention", "kda_layers": "linear_attention"} {
		list, ok := own[field].([]any)
		if !ok {
			f.fail("field linear_attn_config.%s is %v and a list of layers is wanted", field, own[field])
			return
		}
		for _, v := range list {
			n, ok := number(v)
			i := int(n) - 1
			if !ok || n != float64(i+1) || i < 0 || i >= c.Layers || types[i] != nil {
				f.fail("field linear_attn_config.%s has layer %v; layers 1 to %d are listed once each", field, v, c.Layers)
				return
			}
			types[i] = kind
		}
	}
	for name := range own {
		switch name {
		case "full_attn_layers", "kda_layers", "num_heads", "head_dim", "short_conv_kernel_size":
		default:
			f.fail("field linear_attn_config.%s is not supported", name)
		}
	}
	for i, t := range types {
		if t == nil {
			f.fail("field linear_attn_config says nothing of layer %d", i+1)
			return
		}
	}
	if listed := f.value("layer_types"); listed != nil && !reflect.DeepEqual(listed, types) {
		f.fail("field layer_types is %v, and linear_attn_config makes it %v", listed, types)
	}
	f.hf["layer_types"] = types
}

// denseFirst checks that mlp_layer_types, if it is there, says what first_k_dense_replace does.
func (f *fields) denseFirst(c *Config) {
	types := f.strings("mlp_layer_types")
	if types != nil && f.eachLayer(c, len(types), "mlp_layer_types") {
		for i, t := range types {
			if want := map[bool]string{true: "dense", false: "sparse"}[c.dense(i)]; t != want {
				f.fail("field mlp_layer_types says that layer %d is %s, and first_k_dense_replace is %d", i, fmt.Sprintf("%q", t), c.DenseLayers)
				return
			}
		}
	}
}
