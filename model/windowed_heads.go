package model

import (
	"fmt"
	"maps"
)

// Heads of layers without a window that are of another size, or fewer, than those of layers with one: Gemma 4.

// useHeads has GGUF's sizes of heads of layers with a window stand where those of all layers do: hf, which is theirs in config.json, is read as
// the first of the keys, and values' sizes must be those of keys.
func (f *fields) useHeads(hf, key, value, fullKey, fullValue string) {
	if f.isHF() {
		return
	}
	full, windowed := f.sizeOr("", fullKey, 512), f.sizeOr("", key, 256)
	if v := f.sizeOr("", value, windowed); v != windowed {
		f.fail("its keys have heads of %d and its values of %d in layers with a window, which this architecture does not do", windowed, v)
	}
	if v := f.sizeOr("", fullValue, full); v != full {
		f.fail("its keys have heads of %d and its values of %d, which this architecture does not do", full, v)
	}
	f.gguf = maps.Clone(f.gguf)
	f.gguf[f.arch+"."+fullKey], f.gguf[f.arch+"."+fullValue] = uint32(windowed), uint32(windowed)
	f.gguf[f.arch+"."+fullKey+".full"] = uint32(full)
}

// fullHeads reads the heads of layers without a window. heads are GGUF's numbers of key heads, layer by layer; nil: one number says.
func (f *fields) fullHeads(c *Config, heads []int) {
	full := Heads{KV: c.KVHeads, Size: f.sizeOr("global_head_dim", "attention.key_length.full", 512)}
	delete(f.written, "attention.key_length.full")
	if full.Size == 0 { // as others
		full.Size = c.HeadDim
	}
	c.KeysAsValues = f.flag("attention_k_eq_v", false)
	if f.isHF() {
		if n := f.sizeOr("num_global_key_value_heads", "", 0); c.KeysAsValues && n > 0 {
			full.KV = n
		}
		if f.value("per_layer_config") != nil {
			full = f.perLayerHeads(c)
		}
	} else if c.Layers <= maxLayers {
		f.ggufHeads(c, &full, heads)
	}
	if full.Size > maxSize || full.KV < 1 || full.KV > maxSize || c.Heads%max(full.KV, 1) != 0 {
		f.fail("its %d query heads cannot share %d key heads of %d in layers without a window", c.Heads, full.KV, full.Size)
		return
	}
	c.Full = full
	list := make([]int, len(c.Windows))
	for i := range list {
		if list[i] = c.KVHeads; c.Windows[i] == 0 {
			list[i] = full.KV
		}
	}
	if full.KV != c.KVHeads {
		f.note("attention.head_count_kv", int32s(list))
	}
	for key, n := range map[string]int{"key_length": full.Size, "value_length": full.Size, "key_length_swa": c.HeadDim, "value_length_swa": c.HeadDim} {
		f.note("attention."+key, uint32(n))
	}
}

// perLayerHeads reads the heads of layers without a window where config.json lists what is other in some layers, as transformers 5 writes it.
func (f *fields) perLayerHeads(c *Config) Heads {
	const field = "per_layer_config"
	layers := maps.Clone(f.object(field))
	full, known := Heads{c.KVHeads, c.HeadDim}, false
	for i, window := range c.Windows {
		name := fmt.Sprint(i)
		own := Heads{c.KVHeads, c.HeadDim}
		for key, v := range f.part(layers, name) {
			n, ok := number(v)
			at := map[string]*int{"head_dim": &own.Size, "num_key_value_heads": &own.KV}[key]
			if !ok || n != float64(int(n)) || n < 1 || n > maxSize || at == nil {
				f.fail("field %s.%s.%s is %v; whole numbers of 1 to %d in head_dim and num_key_value_heads are supported", field, name, key, v, maxSize)
				return full
			}
			*at = int(n)
		}
		delete(layers, name)
		others := full
		if window > 0 {
			others = Heads{c.KVHeads, c.HeadDim}
		}
		if (window > 0 || known) && own != others {
			f.fail("field %s gives layer %d %d key heads of %d, and others of its kind have %d of %d", field, i, own.KV, own.Size, others.KV, others.Size)
			return full
		}
		if window == 0 {
			full, known = own, true
		}
	}
	for name := range layers {
		f.fail("field %s has an entry for layer %s, and there are %d layers", field, name, c.Layers)
	}
	return full
}

// ggufHeads finds the numbers of key heads of both kinds of layers in a list, and by the tensors whether keys are values.
func (f *fields) ggufHeads(c *Config, full *Heads, heads []int) {
	if heads != nil && !f.eachLayer(c, len(heads), f.arch+".attention.head_count_kv") {
		return
	}
	for i, window := range c.Windows {
		if window == 0 && i < c.Layers-c.SharedKV && f.has("blk.0.attn_k.weight") {
			c.KeysAsValues = c.KeysAsValues || !f.hasLayer(i, "attn_v.weight")
		}
		switch {
		case heads == nil:
		case window == 0:
			full.KV = heads[i]
		default:
			c.KVHeads = heads[i]
		}
	}
	for i, n := range heads {
		if want := map[bool]int{true: full.KV, false: c.KVHeads}[c.Windows[i] == 0]; n != want {
			f.fail("layer %d has %d key heads, and others of its kind %d (attention.head_count_kv)", i, n, want)
		}
	}
}

// hasLayer reports whether a GGUF file has a tensor of a layer.
func (f *fields) hasLayer(layer int, name string) bool {
	return f.has(fmt.Sprintf("blk.%d.%s", layer, name))
}
