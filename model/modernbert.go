package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
)

// modernBert is ModernBERT (arXiv:2412.13663; gte-modernbert, nomic's modernbert-embed): an encoder whose blocks read the normalised
// stream, with rotated queries and keys, and, on two layers of three, no sight of tokens that are far away.
var modernBert = Arch{
	Name: "modern-bert",
	HF:   []string{"ModernBertModel", "ModernBertForMaskedLM"},
	Read: readModernBert,
	Names: map[string]string{
		"token_embd":        "model.embeddings.tok_embeddings",
		"token_embd_norm":   "model.embeddings.norm",
		"output_norm":       "model.final_norm",
		"blk.N.attn_norm":   "model.layers.N.attn_norm",
		"blk.N.attn_qkv":    "model.layers.N.attn.Wqkv",
		"blk.N.attn_output": "model.layers.N.attn.Wo",
		"blk.N.ffn_norm":    "model.layers.N.mlp_norm",
		"blk.N.ffn_up":      "model.layers.N.mlp.Wi",
		"blk.N.ffn_down":    "model.layers.N.mlp.Wo",
	},
	Build: func(b *graph.Builder, c *Config) *graph.Value {
		x := norm(b, c, "token_embd_norm", embedding(b, c))
		for i := range c.Layers {
			l, h := newLayer(b, c, i), x
			if i > 0 { // the embeddings are normalised already
				h = l.norm("attn_norm", x)
			}
			x = l.add("attn_sum", x, l.selfAttention(h))
			x = l.add("ffn_sum", x, l.gated(l.norm("ffn_norm", x)))
		}
		b.Layer(graph.NoLayer)
		x = norm(b, c, "output_norm", x)
		b.Hidden(x)
		return b.SelectRows("selected", x)
	},
}

func readModernBert(f *fields) *Config {
	c := &Config{
		Hidden:  f.size("hidden_size", "embedding_length"),
		Layers:  f.size("num_hidden_layers", "block_count"),
		Heads:   f.size("num_attention_heads", "attention.head_count"),
		FFN:     f.size("intermediate_size", "feed_forward_length"),
		Context: f.size("max_position_embeddings", "context_length"),
		NormEps: f.floatOr("norm_eps", "attention.layer_norm_epsilon", 1e-5),
		Vocab:   f.vocabulary(),
		Act:     f.activation("hidden_activation", graph.GeluErf),
		Encoder: true, LayerNorm: true, FusedQKV: true, FusedGate: true,
	}
	c.KVHeads, c.HeadDim = c.Heads, c.Hidden/max(c.Heads, 1)
	c.AttnScale = 1 / math.Sqrt(float64(c.HeadDim))
	c.NormBias = f.switched("norm_bias", "output_norm.bias", false)
	c.QKVBias = f.biased("attention_bias", "attn_qkv", false)
	c.OutBias = f.biased("attention_bias", "attn_output", false)
	f.only("mlp_bias", false)
	// Heads for masked words and classes are not part of an encoder for embeddings.
	f.ignored("classifier_activation", "classifier_pooling", "cls_token_id", "decoder_bias", "sparse_pred_ignore_index", "tie_word_embeddings")
	if c.Layers > maxLayers {
		return c
	}
	c.Windows = make([]int, c.Layers)
	every := f.sizeOr("global_attn_every_n_layers", "attention.sliding_window_pattern", 3)
	f.windows(c, f.sizeOr("local_attention", "attention.sliding_window", 128), func(i int) bool { return every > 0 && i%every != 0 })
	global, local := f.floatOr("global_rope_theta", "rope.freq_base", 160000), f.floatOr("local_rope_theta", "rope.freq_base_swa", 10000)
	set := func(kind, name string, theta float64) *graph.Rotation {
		if p := f.part(f.object("rope_parameters"), kind); p != nil {
			return f.hfRotation(c, name, p)
		}
		r := &graph.Rotation{Name: name, Pairing: graph.HalfPairs, Theta: theta, Dim: c.HeadDim}
		f.checkRotation(c, r)
		return r
	}
	c.Windowed = set("sliding_attention", "local_angles", local)
	f.note("rope.freq_base_swa", float32(c.Windowed.Theta))
	c.Rotation = set("full_attention", "angles", global)
	f.note("rope.freq_base", float32(c.Rotation.Theta))
	return c
}
