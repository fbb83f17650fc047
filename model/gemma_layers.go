package model

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/ridge-llm/ridge/graph"
)

// What Gemma 3n and Gemma 4 share: embeddings of each layer's own, keys and values that layers share, values without a weight in their
// norm, heads and widths that vary by layer.

// gemmaLayers are Hugging Face's names of these parts.
var gemmaLayers = map[string]string{
	"per_layer_token_embd":            "model.embed_tokens_per_layer",
	"per_layer_model_proj":            "model.per_layer_model_projection",
	"per_layer_proj_norm":             "model.per_layer_projection_norm",
	"blk.N.inp_gate":                  "model.layers.N.per_layer_input_gate",
	"blk.N.proj":                      "model.layers.N.per_layer_projection",
	"blk.N.post_norm":                 "model.layers.N.post_per_layer_input_norm",
	"blk.N.layer_output_scale.weight": "model.layers.N.layer_scalar",
}

// isScale reports whether a weight is a vector of factors or one of AltUp's few coefficients, which no file has in a block format.
func isScale(name string) bool {
	return strings.HasSuffix(name, ".scale") || strings.HasSuffix(name, "_scale.weight") || strings.HasSuffix(name, "_coef.weight")
}

// heads are the sizes of a layer's heads.
func (l layer) heads() Heads {
	if l.c.Full != (Heads{}) && l.c.Windows[l.i] == 0 {
		return l.c.Full
	}
	return Heads{l.c.KVHeads, l.c.HeadDim}
}

// ffn is the width of a layer's feed-forward block.
func (l layer) ffn() graph.Axis {
	a := l.c.ffn()
	if l.c.LayerFFN != nil {
		a.Count = l.c.LayerFFN[l.i]
	}
	return a
}

// keysOf is the layer whose keys and values a layer attends to: its own or, of the last that share them, the last layer before those with
// the same window.
func (c *Config) keysOf(layer int) int {
	first := c.Layers - c.SharedKV
	if layer < first {
		return layer
	}
	for i := first - 1; i >= 0; i-- {
		if c.Windows[i] == c.Windows[layer] {
			return i
		}
	}
	return layer
}

// checkShared refuses layers that share keys and values with a layer that is not there.
func (f *fields) checkShared(c *Config) {
	if c.SharedKV < 0 || c.SharedKV >= max(c.Layers, 1) {
		f.fail("its last %d of %d layers share keys and values (num_kv_shared_layers); fewer than all are possible", c.SharedKV, c.Layers)
		return
	}
	for i := c.Layers - c.SharedKV; i < c.Layers && f.err == nil; i++ {
		if c.keysOf(i) == i {
			f.fail("layer %d shares keys and values (num_kv_shared_layers is %d), and no layer before number %d has the same window of %d", i, c.SharedKV, c.Layers-c.SharedKV, c.Windows[i])
		}
	}
}

// sharingAttention is an attention block on normalised rows x whose layer may attend to an earlier one's keys and values. Queries and keys are
// normalised with a weight, values without; scores are not scaled. stores are the caches that layers have written so far.
func (l layer) sharingAttention(x *graph.Value, stores []*graph.Value) *graph.Value {
	h, from := l.heads(), l.c.keysOf(l.i)
	kv, head := graph.Axis{Name: "kv", Count: h.KV, Size: h.Size}, graph.Axis{Name: "head", Count: 1, Size: h.Size}
	normed := func(stem string, x *graph.Value) *graph.Value {
		return l.b.GroupRMSNorm(l.name(stem), x, l.b.Vector(l.name(stem)+".weight", head), l.c.NormEps)
	}
	q, r := l.linear("attn_q", x, graph.Axis{Name: "heads", Count: l.c.Heads, Size: h.Size}, l.c.QKVBias), l.c.rotation(l.i)
	if from != l.i {
		q = l.b.RoPE(l.name("q_rot"), normed("attn_q_norm", q), r)
	} else {
		k := l.linear("attn_k", x, kv, l.c.QKVBias)
		v := k
		if !l.c.KeysAsValues || l.c.Windows[l.i] > 0 {
			v = l.linear("attn_v", x, kv, l.c.QKVBias)
		}
		v = l.b.GroupRMSNorm(l.name("v_norm"), v, l.b.Ones(head), l.c.NormEps)
		q, k = normed("attn_q_norm", q), normed("attn_k_norm", k)
		q, k = l.b.RoPE(l.name("q_rot"), q, r), l.b.RoPE(l.name("k_rot"), k, r)
		stores[l.i] = l.b.KVWrite(l.b.Cache(l.i, kv, kv, l.c.Windows[l.i]), k, v)
	}
	y := l.b.Attention(l.name("attn"), q, stores[from], graph.Attention{Scale: l.c.AttnScale})
	return l.linear("attn_output", y, l.c.hidden(), l.c.OutBias)
}

// perLayerEmbeddings is, for each token, an embedding for each layer: of the token itself and what a matrix makes of its embedding x. The
// table is large, a multiple of that of tokens, and only the rows of a step's tokens are read.
func perLayerEmbeddings(b *graph.Builder, c *Config, x *graph.Value) *graph.Value {
	all, one := graph.Axis{Name: "per_layer", Count: c.Layers, Size: c.PerLayer}, graph.Axis{Name: "part", Count: 1, Size: c.PerLayer}
	table := b.Weight("per_layer_token_embd.weight", graph.Axis{Name: "tokens", Count: c.PerLayerRows, Size: 1}, all)
	own := b.EmbedKnown("per_layer_embd", table, math.Sqrt(float64(c.PerLayer)))
	y := b.Scale("per_layer_scaled", b.Linear("per_layer_model_proj", x, b.Weight("per_layer_model_proj.weight", all, x.Axis), nil), 1/math.Sqrt(float64(c.Hidden)))
	y = b.GroupRMSNorm("per_layer_proj_norm", y, b.Vector("per_layer_proj_norm.weight", one), c.NormEps)
	return b.Scale("per_layer", b.Add("per_layer_sum", y, own), math.Sqrt2/2)
}

// perLayerInput is what a layer's own embeddings add to its result x.
func (l layer) perLayerInput(x, embeddings *graph.Value) *graph.Value {
	one := graph.Axis{Name: "part", Count: 1, Size: l.c.PerLayer}
	own := l.b.Columns(l.name("per_layer"), embeddings, l.i*l.c.PerLayer, one)
	y := l.b.ActMul(l.name("inp_act"), l.linear("inp_gate", x, one, false), own, l.c.Act)
	return l.norm("post_norm", l.linear("proj", y, l.c.hidden(), false))
}

// readPerLayer reads embeddings of each layer's own.
func (f *fields) readPerLayer(c *Config, otherwise int) {
	c.PerLayer = f.sizeOr("hidden_size_per_layer_input", "embedding_length_per_layer_input", otherwise)
	if c.PerLayer > maxSize/max(c.Layers, 1) {
		f.fail("its %d layers have embeddings of %d numbers each; %d are possible together", c.Layers, c.PerLayer, maxSize)
	}
	c.PerLayerRows = f.sizeOr("vocab_size_per_layer_input", "", c.Vocab)
	if c.PerLayer == 0 {
		c.PerLayerRows = 0
		return
	}
	if t, ok := f.tensor("per_layer_token_embd.weight"); ok && !f.isHF() {
		c.PerLayerRows = t
	}
	if c.PerLayerRows < 1 || c.PerLayerRows > maxSize {
		f.fail("embeddings of layers exist for %d tokens (vocab_size_per_layer_input); 1 to %d are possible", c.PerLayerRows, maxSize)
	}
}

// tensor is how many rows a tensor of the file has.
func (f *fields) tensor(name string) (rows int, ok bool) {
	if f.files == nil {
		return 0, false
	}
	t, ok := f.files.Tensor(name)
	return t.Rows, ok
}

// perLayer takes a field that may list a size for each layer out of the configuration, and leaves its largest in its place, where what
// reads sizes finds it; nil: it is one number, or not there.
func (f *fields) perLayer(hf, gguf string) (list []int) {
	v, name := f.raw(hf, gguf)
	switch values := v.(type) {
	case []any:
		for _, v := range values {
			n, ok := number(v)
			list = append(list, int(n))
			if !ok || n != math.Trunc(n) || n < 0 || n > maxSize {
				f.fail("field %s lists %v and whole numbers of at most %d are wanted", name, v, maxSize)
			}
		}
	case []int32:
		for _, n := range values {
			list = append(list, int(n))
		}
	case []uint32:
		for _, n := range values {
			list = append(list, int(min(n, math.MaxInt32)))
		}
	default:
		return nil
	}
	largest := 0
	for _, n := range list {
		largest = max(largest, n)
	}
	if f.isHF() {
		f.hf = maps.Clone(f.hf)
		f.hf[hf] = float64(largest)
	} else {
		f.gguf = maps.Clone(f.gguf)
		f.gguf[name] = uint32(largest)
	}
	return list
}

// layerFFN is what perLayer took of the widths of feed-forward blocks, where they differ.
func (f *fields) layerFFN(c *Config, list []int) {
	differ := false
	for _, n := range list {
		differ = differ || n != c.FFN
	}
	if !differ {
		return
	}
	f.eachLayer(c, len(list), "intermediate_size")
	c.LayerFFN = list
	f.note("feed_forward_length", int32s(list))
}

// eachLayer refuses a list that has not one entry for each layer.
func (f *fields) eachLayer(c *Config, n int, what string) bool {
	if n != c.Layers {
		f.fail("field %s lists %d layers and num_hidden_layers says %d", what, n, c.Layers)
	}
	return n == c.Layers
}

func int32s(list []int) []int32 {
	out := make([]int32, len(list))
	for i, n := range list {
		out[i] = int32(n)
	}
	return out
}

// listedWindows gives layers their window as f.windows does, and in GGUF as a list of which layers have one or a number says: of so many the
// last has none.
func (f *fields) listedWindows(c *Config, window, every int) {
	const key = "attention.sliding_window_pattern"
	if list, ok := f.metaList(key).([]bool); ok && !f.isHF() {
		if f.eachLayer(c, len(list), f.arch+"."+key) {
			for i, sliding := range list {
				if sliding {
					c.Windows[i] = window
				}
			}
		}
	} else {
		every = f.sizeOr("", key, every)
		f.windows(c, window, func(i int) bool { return every > 0 && (i+1)%every != 0 })
	}
	sliding := make([]bool, len(c.Windows))
	for i, w := range c.Windows {
		sliding[i] = w > 0
	}
	f.note(key, sliding)
}

// metaList is a key of GGUF metadata; nil of config.json.
func (f *fields) metaList(key string) any {
	if f.isHF() {
		return nil
	}
	return f.meta(key)
}

// layerStack is a name of a matrix that a file has once for each stream, with the number of one of them: "model.altup_projections.2.weight".
func layerStack(first string, i int) string {
	return strings.Replace(first, ".0.", fmt.Sprintf(".%d.", i), 1)
}
