package model

import (
	"maps"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// llamaLike reads what the Llama family's configurations share. Biases are off and every layer looks back all the
// way; architectures change that after.
func llamaLike(f *fields) *Config {
	return decoderLike(f, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-6)
}

// layerNormed is llamaLike for models with LayerNorm, with biases if they have them; eps is the field of config.json.
func layerNormed(f *fields, eps string, bias bool) *Config {
	c := decoderLike(f, eps, "attention.layer_norm_epsilon", 1e-5)
	c.LayerNorm, c.NormBias = true, bias
	return c
}

// decoderLike is llamaLike with the names of the norms' epsilon.
func decoderLike(f *fields, hfEps, ggufEps string, eps float64) *Config {
	c := decoderSizes(f, hfEps, ggufEps, eps)
	c.KVHeads = f.sizeOr("num_key_value_heads", "attention.head_count_kv", c.Heads)
	c.HeadDim = f.sizeOr("head_dim", "attention.key_length", c.Hidden/max(c.Heads, 1))
	if v := f.sizeOr("", "attention.value_length", c.HeadDim); v != c.HeadDim {
		f.fail("its keys have heads of %d and its values of %d, which this architecture does not do", c.HeadDim, v)
	}
	c.AttnScale = 1 / math.Sqrt(float64(c.HeadDim))
	return c
}

// decoderSizes is decoderLike without the sizes of heads.
func decoderSizes(f *fields, hfEps, ggufEps string, eps float64) *Config {
	c := &Config{
		Hidden:  f.size("hidden_size", "embedding_length"),
		Layers:  f.size("num_hidden_layers", "block_count"),
		Heads:   f.size("num_attention_heads", "attention.head_count"),
		FFN:     f.size("intermediate_size", "feed_forward_length"),
		Context: f.size("max_position_embeddings", "context_length"),
		NormEps: f.floatOr(hfEps, ggufEps, eps),
	}
	if v, _ := f.raw("", "nextn_predict_layers"); v != nil { // layers that GGUF counts with the others
		if further := f.size("", "nextn_predict_layers"); further < c.Layers {
			c.Layers -= further
		}
	}
	c.Vocab = f.vocabulary()
	c.Tied = f.tied(false)
	c.Act = f.activation("hidden_act", graph.Silu)
	if c.Layers <= maxLayers {
		c.Windows = make([]int, c.Layers)
	}
	return c
}

// vocabulary is the number of rows of the embedding.
func (f *fields) vocabulary() int {
	if f.isHF() {
		return f.size("vocab_size", "vocab_size")
	}
	if t, ok := f.files.Tensor("token_embd.weight"); ok {
		return t.Rows
	}
	f.fail("it has no tensor token_embd.weight")
	return 0
}

// tied reports whether the embedding serves as the output matrix too.
func (f *fields) tied(otherwise bool) bool {
	if f.isHF() {
		return f.flag("tie_word_embeddings", otherwise)
	}
	return !f.has("output.weight")
}

// biased reports whether a projection has a bias: by a field in config.json, by the tensor in GGUF.
func (f *fields) biased(hf, tensor string, otherwise bool) bool {
	if f.isHF() {
		return f.flag(hf, otherwise)
	}
	return f.has("blk.0." + tensor + ".bias")
}

// switched is biased for tensors other than biases: by a field in config.json, by whether the tensor is there in GGUF.
func (f *fields) switched(hf, tensor string, otherwise bool) bool {
	if f.isHF() {
		return f.flag(hf, otherwise)
	}
	return f.has(tensor)
}

// merged is names with others in their places or beside them.
func merged(names map[string]string, others ...map[string]string) map[string]string {
	all := maps.Clone(names)
	for _, more := range others {
		maps.Copy(all, more)
	}
	return all
}

// under puts a module in front of all of the names in it, in place.
func under(module string, names map[string]string) map[string]string {
	for stem, name := range names {
		names[stem] = module + "." + name
	}
	return names
}

// activation reads the name of the feed-forward block's function.
func (f *fields) activation(hf string, otherwise graph.Fn) graph.Fn {
	switch name := f.word(hf); name {
	case "":
		return otherwise
	case "silu", "swish":
		return graph.Silu
	case "gelu":
		return graph.GeluErf
	case "gelu_new", "gelu_pytorch_tanh", "gelu_fast":
		return graph.GeluTanh
	case "relu":
		return graph.Relu
	case "relu2", "relu_squared":
		return graph.Relu2
	default:
		f.fail("field %s is %q; silu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu and relu2 are supported", hf, name)
		return otherwise
	}
}

// windows gives layers their window: those that layer_types calls sliding_attention, or, without that field, those
// that otherwise says.
func (f *fields) windows(c *Config, window int, otherwise func(layer int) bool) {
	types := f.strings("layer_types")
	if len(types) != 0 && len(types) != c.Layers {
		f.fail("field layer_types lists %d layers and num_hidden_layers says %d", len(types), c.Layers)
		return
	}
	for i := range c.Windows {
		sliding := otherwise(i)
		if len(types) > 0 {
			sliding = types[i] == "sliding_attention"
			if !sliding && types[i] != "full_attention" {
				f.fail("field layer_types has %q; full_attention and sliding_attention are supported", types[i])
			}
		}
		if sliding {
			c.Windows[i] = window
		}
	}
}

// everyLayer is an answer for windows.
func everyLayer(int) bool { return true }

// interleaved is f.rotation for models whose pairs lie next to one another in Hugging Face files as well.
func (f *fields) interleaved(c *Config) *graph.Rotation {
	r := f.rotation(c, graph.AdjacentPairs)
	r.Pairing = graph.AdjacentPairs
	return r
}

// partialRotary is what part of a head is rotated where config.json does not say.
func (f *fields) partialRotary(otherwise float64) {
	if f.isHF() && f.value("partial_rotary_factor") == nil {
		f.hf["partial_rotary_factor"], f.assumed["partial_rotary_factor"] = otherwise, true
	}
}

// renamed gives a field of config.json the name that newer files have for it.
func (f *fields) renamed(old, now string) {
	if v := f.value(old); v != nil && f.hf[now] == nil {
		f.hf[now] = v
	}
}

// only refuses a flag of config.json that is not as given, which is also what it is without the field.
func (f *fields) only(hf string, wanted bool) {
	if f.flag(hf, wanted) != wanted {
		f.fail("field %s is %v; only %v is supported", hf, !wanted, wanted)
	}
}

// pattern tells which layers have a window: all but one in so many by a number of config.json or of GGUF, or those that a GGUF file lists.
func (f *fields) pattern(otherwise int) func(layer int) bool {
	const key = "attention.sliding_window_pattern"
	if list, ok := f.metaList(key).([]bool); ok {
		f.note(key, list)
		return func(layer int) bool {
			if layer >= len(list) {
				f.fail("field %s.%s lists %d layers and block_count says more", f.arch, key, len(list))
			}
			return layer < len(list) && list[layer]
		}
	}
	every := otherwise
	if s, ok := f.value("sliding_window_pattern").(string); ok { // "LLLG": local, …, global
		every = len(s)
	} else {
		every = f.sizeOr("sliding_window_pattern", key, otherwise)
	}
	f.note(key, uint32(every))
	return func(layer int) bool { return every > 0 && (layer+1)%every != 0 }
}

// notePattern notes after how many layers one has no window, where a list of config.json said so.
func (f *fields) notePattern(c *Config) {
	if first := slices.Index(c.Windows, 0); f.isHF() && first >= 0 {
		f.note("attention.sliding_window_pattern", uint32(first+1))
	}
}
