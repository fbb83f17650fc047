package model

import (
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// deepseek32 is DeepSeek-V3.2: V3 whose rows attend to the keys that an indexer chooses.
var deepseek32 = Arch{
	Name:   "deepseek32",
	HF:     []string{"DeepseekV32ForCausalLM"},
	Read:   func(f *fields) *Config { return sparseLike(f, graph.HalfPairs) },
	Build:  sparseDecoder,
	Names:  sparseNames,
	Recipe: latentRecipe,
}

// glmDSA is GLM-5: as DeepSeek-V3.2, but for the indexer's rotation, and some layers take the choice of the layer before.
var glmDSA = Arch{
	Name:   "glm-dsa",
	HF:     []string{"GlmMoeDsaForCausalLM"},
	Read:   func(f *fields) *Config { return sparseLike(f, graph.AdjacentPairs) },
	Build:  sparseDecoder,
	Names:  sparseNames,
	Recipe: latentRecipe,
}

// sparseLike reads what models with an indexer share.
func sparseLike(f *fields, pairing graph.Pairing) *Config {
	c := latentLike(f)
	if f.err != nil {
		return c
	}
	for i, kind := range f.strings("layer_types") {
		if kind != "deepseek_sparse_attention" {
			f.fail("field layer_types has %q for layer %d; deepseek_sparse_attention is supported", kind, i)
		}
	}
	f.readExperts(c)
	f.readRouting(c, graph.Route{Sigmoid: true})
	f.denseLayers(c)
	c.Index = Index{
		Heads: f.size("index_n_heads", "attention.indexer.head_count"), Size: f.size("index_head_dim", "attention.indexer.key_length"),
		TopK: f.size("index_topk", "attention.indexer.top_k"),
	}
	switch i := &c.Index; {
	case i.Heads < 1 || i.Size < 1 || i.TopK < 1 || i.Heads > maxSize || i.Size > maxSize || i.TopK > maxSize:
		f.fail("its indexer has %d heads of %d numbers and chooses %d keys; 1 to %d are possible", i.Heads, i.Size, i.TopK, maxSize)
	case c.Latent.Rope > i.Size:
		f.fail("its indexer has heads of %d numbers, of which %d cannot be rotated", i.Size, c.Latent.Rope)
	case c.Latent.Q == 0:
		f.fail("its queries have no latent (q_lora_rank), which the indexer reads")
	}
	c.Index.Shared, c.IndexRotation = f.sharedChoices(c), c.Rotation
	if pairing != c.Rotation.Pairing {
		r := *c.Rotation
		r.Name, r.Pairing = "index_angles", pairing
		c.IndexRotation = &r
	}
	return c
}

// denseLayers checks that layers without experts come first, as mlp_layer_types lists them.
func (f *fields) denseLayers(c *Config) {
	for i, kind := range f.strings("mlp_layer_types") {
		if dense := kind == "dense"; !dense && kind != "sparse" || dense != (i < c.DenseLayers) {
			f.fail("field mlp_layer_types has %q for layer %d, and first_k_dense_replace is %d; dense layers come first", kind, i, c.DenseLayers)
		}
	}
}

// sharedChoices reads which layers take the choice of the layer before; nil if none do. GGUF lists the layers that choose; llama.cpp takes GLM
// 5.2's in a file of glm-dsa that lists none and whose context is as long as that model's, as some files of it are.
func (f *fields) sharedChoices(c *Config) (shared []bool) {
	const key = "attention.indexer.types"
	if c.Layers > maxLayers {
		return nil
	}
	shared = make([]bool, c.Layers)
	types := f.strings("indexer_types")
	list, listed := f.metaList(key).([]bool)
	switch {
	case len(types) != 0 && f.eachLayer(c, len(types), "indexer_types"):
		for i, kind := range types {
			if kind != "full" && (kind != "shared" || i == 0) {
				f.fail("field indexer_types has %q for layer %d; full and, after the first layer, shared are supported", kind, i)
			}
			shared[i] = kind == "shared"
		}
	case listed && f.eachLayer(c, len(list), f.arch+"."+key):
		if len(list) > 0 && !list[0] {
			f.fail("field %s.%s says that the first layer takes the choice of a layer before it", f.arch, key)
		}
		for i, chooses := range list {
			shared[i] = !chooses
		}
	case !f.isHF() && !listed && f.arch == "glm-dsa" && c.Context >= 1<<20:
		for i := range shared {
			shared[i] = i > 2 && i%4 != 2
		}
	}
	chooses := make([]bool, c.Layers)
	for i := range chooses {
		chooses[i] = !shared[i]
	}
	if !slices.Contains(shared, true) {
		shared = nil
	}
	if shared != nil || c.Context >= 1<<20 {
		f.note(key, chooses)
	}
	return shared
}

// chooseKeys is a layer's indexer on normalised rows x, whose queries are made of their latent.
func (l layer) chooseKeys(x, latent *graph.Value) *graph.Value {
	i, r := l.c.Index, l.c.IndexRotation
	heads, key := graph.Axis{Name: "index_heads", Count: i.Heads, Size: i.Size}, graph.Axis{Name: "index", Count: 1, Size: i.Size}
	q := l.b.RoPE(l.name("index_q_rot"), l.linear("indexer.attn_q_b", latent, heads, false), r)
	k := l.linear("indexer.attn_k", x, key, false)
	k = l.b.LayerNorm(l.name("index_k_norm"), k, l.b.Vector(l.name("indexer.k_norm.weight"), key), l.b.Vector(l.name("indexer.k_norm.bias"), key), 1e-6)
	cache := l.b.LatentWrite(l.b.LatentCache("index", l.i, key, key), l.b.RoPE(l.name("index_k_rot"), k, r))
	w := l.linear("indexer.proj", x, graph.Axis{Name: "index_heads", Count: i.Heads, Size: 1}, false)
	return l.b.TopKeys(l.name("chosen"), q, w, cache, i.TopK)
}

// sparseDecoder is preNorm with indexers.
func sparseDecoder(b *graph.Builder, c *Config) *graph.Value {
	x := embedding(b, c)
	var y, chosen *graph.Value
	for i := range c.Layers {
		l := newLayer(b, c, i)
		y, chosen = l.sparseAttention(l.norm("attn_norm", x), chosen)
		x = l.add("attn_sum", x, y)
		x = l.add("ffn_sum", x, l.feedForward(l.norm("ffn_norm", x)))
	}
	return head(b, c, x)
}

// sparseNames are latentNames and those of indexers.
var sparseNames = merged(latentNames, map[string]string{
	"blk.N.indexer.attn_q_b": "model.layers.N.self_attn.indexer.wq_b",
	"blk.N.indexer.attn_k":   "model.layers.N.self_attn.indexer.wk",
	"blk.N.indexer.k_norm":   "model.layers.N.self_attn.indexer.k_norm",
	"blk.N.indexer.proj":     "model.layers.N.self_attn.indexer.weights_proj",
})
