package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// latentLike reads what models with multi-head latent attention share.
func latentLike(f *fields) *Config {
	c := decoderSizes(f, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-6)
	d := &c.Latent
	d.Q, d.KV = f.sizeOr("q_lora_rank", "attention.q_lora_rank", 0), f.size("kv_lora_rank", "attention.kv_lora_rank")
	d.Rope = f.size("qk_rope_head_dim", "rope.dimension_count")
	d.Nope = f.sizeOr("qk_nope_head_dim", "", 0)
	if !f.isHF() {
		d.Nope = f.size("", "attention.key_length_mla") - d.Rope
	}
	d.Value = f.size("v_head_dim", "attention.value_length_mla")
	f.ignored("head_dim", "qk_head_dim", "num_key_value_heads") // which follow from these
	f.note("attention.key_length_mla", uint32(d.Nope+d.Rope))
	f.note("attention.key_length", uint32(d.KV+d.Rope))
	f.note("attention.value_length", uint32(d.KV))
	f.note("attention.head_count_kv", uint32(1))
	for what, n := range map[string]int{"latent": d.KV, "rotated part of heads": d.Rope, "unrotated part of heads": d.Nope, "value heads": d.Value} {
		if n <= 0 || n > maxSize {
			f.fail("the size of its %s is %d; 1 to %d are possible", what, n, maxSize)
			return c
		}
	}
	f.only("attention_bias", false)
	c.KVHeads, c.HeadDim = 1, d.Rope
	for field, want := range map[string]int{"head_dim": d.Rope, "qk_head_dim": d.Nope + d.Rope, "num_key_value_heads": c.Heads} {
		if n := f.sizeOr(field, "", want); n != want {
			f.fail("field %s is %d; with latent attention of this size it is %d", field, n, want)
		}
	}
	c.Rotation = f.interleaved(c)
	f.only("rope_interleave", true)
	f.latentScale(c)
	return c
}

// latentScale reads YaRN's two magnitudes: that of scores (mscale_all_dim), and with it that of the rotation, which is the quotient of both.
// GGUF has the first as a tenth of it, and takes the second for 1.
func (f *fields) latentScale(c *Config) {
	c.AttnScale = 1 / math.Sqrt(float64(c.Latent.Nope+c.Latent.Rope))
	s := &c.Rotation.Scaling
	if s.Kind != graph.YarnScaling {
		return
	}
	p := f.object("rope_parameters")
	if p == nil {
		p = f.object("rope_scaling")
	}
	all, _ := number(p["mscale_all_dim"])
	if !f.isHF() {
		all = 10 * f.floatOr("", "rope.scaling.yarn_log_multiplier", 0)
		s.Magnitude = f.floatOr("", "rope.scaling.attn_factor", 1)
	} else {
		f.note("rope.scaling.yarn_log_multiplier", float32(all/10))
		f.note("rope.scaling.attn_factor", float32(s.Magnitude))
		if s.Magnitude == 1 { // as readers take it for
			delete(f.written, "rope.scaling.attn_factor")
		}
	}
	m := yarnMagnitude(s.Factor, all)
	c.AttnScale *= m * m
}

// latentAttention is a block of multi-head latent attention on normalised rows x, with absorbed matrices: a query head is brought into the
// space of the latent, which is key and value of all heads, and what it gets is brought out of it.
func (l layer) latentAttention(x *graph.Value) *graph.Value {
	q, _ := l.latentQueries(x)
	return l.latentOutput(l.b.Attention(l.name("attn"), q, l.latentCache(x), graph.Attention{Scale: l.c.AttnScale}))
}

// sparseAttention is latentAttention to the keys that the layer's indexer chooses or, if it has none, those of the layer before. It returns
// the choice too.
func (l layer) sparseAttention(x, chosen *graph.Value) (y, choice *graph.Value) {
	q, latent := l.latentQueries(x)
	if l.c.Index.Shared == nil || !l.c.Index.Shared[l.i] {
		chosen = l.chooseKeys(x, latent)
	}
	return l.latentOutput(l.b.SparseAttention(l.name("attn"), q, l.latentCache(x), chosen, l.c.AttnScale)), chosen
}

// latentQueries makes the queries, heads × (latent + rotated), of rows and, if there is one, their latent.
func (l layer) latentQueries(x *graph.Value) (q, latent *graph.Value) {
	d := l.c.Latent
	heads := graph.Axis{Name: "heads", Count: l.c.Heads, Size: d.Nope + d.Rope}
	if d.Q > 0 {
		latent = l.norm("attn_q_a_norm", l.linear("attn_q_a", x, graph.Axis{Name: "q_latent", Count: 1, Size: d.Q}, false))
		q = l.linear("attn_q_b", latent, heads, false)
	} else {
		q = l.linear("attn_q", x, heads, false)
	}
	if r := l.c.rotation(l.i); r != nil {
		q = l.b.RoPEFrom(l.name("q_rot"), q, r, d.Nope)
	}
	stack, rank := graph.Axis{Name: "heads", Count: l.c.Heads, Size: 1}, graph.Axis{Name: "latent", Count: 1, Size: d.KV}
	return l.b.HeadLinear(l.name("q_latent"), q, l.b.Stack(l.name("attn_k_b.weight"), stack, rank, graph.Axis{Name: "nope", Count: 1, Size: d.Nope}), d.Rope), latent
}

// latentCache writes the latents of rows and their rotated keys.
func (l layer) latentCache(x *graph.Value) *graph.Value {
	d := l.c.Latent
	rank, rope := graph.Axis{Name: "latent", Count: 1, Size: d.KV}, graph.Axis{Name: "rope", Count: 1, Size: d.Rope}
	both := l.name("attn_kv_a_mqa.weight")
	latent := l.norm("attn_kv_a_norm", l.b.Linear(l.name("kv_latent"), x, l.b.Part(both, 0, rank, x.Axis), nil))
	key := l.b.Linear(l.name("k_rope"), x, l.b.Part(both, d.KV, rope, x.Axis), nil)
	if r := l.c.rotation(l.i); r != nil {
		key = l.b.RoPE(l.name("k_rot"), key, r)
	}
	cache := l.b.LatentCache("kv", l.i, graph.Axis{Name: "latent", Count: 1, Size: d.KV + d.Rope}, rank)
	return l.b.LatentWrite(cache, latent, key)
}

// latentOutput is the rest of the block behind the attention.
func (l layer) latentOutput(y *graph.Value) *graph.Value {
	d := l.c.Latent
	stack := graph.Axis{Name: "heads", Count: l.c.Heads, Size: 1}
	w := l.b.Stack(l.name("attn_v_b.weight"), stack, graph.Axis{Name: "value", Count: 1, Size: d.Value}, graph.Axis{Name: "latent", Count: 1, Size: d.KV})
	return l.linear("attn_output", l.b.HeadLinear(l.name("attn_values"), y, w, 0), l.c.hidden(), false)
}

// latentRecipe takes kv_b, which has the rows of each head's keys and then of its values, apart.
func latentRecipe(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
	switch n, d := c.Heads, c.Latent; stem {
	case "blk.N.attn_k_b.weight":
		return recipe.Transpose{Of: recipe.RowsOfEach{Of: t, Count: n, From: 0, To: d.Nope}, Count: n}
	case "blk.N.attn_v_b.weight":
		return recipe.RowsOfEach{Of: t, Count: n, From: d.Nope, To: d.Nope + d.Value}
	}
	return t
}
