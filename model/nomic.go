package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
)

// nomicBert is Nomic's BERT (arXiv:2402.01613; nomic-embed-text 1 and 1.5): rotated queries and keys in place of learned positions,
// queries, keys and values in one matrix, a gated feed-forward block, and hardly a bias.
var nomicBert = Arch{
	Name: "nomic-bert",
	HF:   []string{"NomicBertModel"},
	Read: readNomic,
	Names: map[string]string{
		"token_embd":              "embeddings.word_embeddings",
		"token_types":             "embeddings.token_type_embeddings",
		"token_embd_norm":         "emb_ln",
		"blk.N.attn_qkv":          "encoder.layers.N.attn.Wqkv",
		"blk.N.attn_output":       "encoder.layers.N.attn.out_proj",
		"blk.N.attn_output_norm":  "encoder.layers.N.norm1",
		"blk.N.ffn_up":            "encoder.layers.N.mlp.fc11",
		"blk.N.ffn_gate":          "encoder.layers.N.mlp.fc12",
		"blk.N.ffn_down":          "encoder.layers.N.mlp.fc2",
		"blk.N.layer_output_norm": "encoder.layers.N.norm2",
	},
	Build: func(b *graph.Builder, c *Config) *graph.Value {
		return encoder(b, c, func(l layer, x *graph.Value) *graph.Value { return l.attend(l.fusedQKV(x, false)) }, layer.gated)
	},
}

// readNomic reads a configuration, which has GPT-2's names in Hugging Face's world.
func readNomic(f *fields) *Config {
	c := &Config{
		Hidden:  f.size("n_embd", "embedding_length"),
		Layers:  f.size("n_layer", "block_count"),
		Heads:   f.size("n_head", "attention.head_count"),
		FFN:     f.size("n_inner", "feed_forward_length"),
		Context: f.size("n_positions", "context_length"),
		NormEps: f.floatOr("layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-12),
		Vocab:   f.vocabulary(),
		Act:     graph.Silu,
		Encoder: true,
	}
	c.KVHeads, c.HeadDim = c.Heads, c.Hidden/max(c.Heads, 1)
	c.AttnScale = 1 / math.Sqrt(float64(c.HeadDim))
	if c.Layers <= maxLayers {
		c.Windows = make([]int, c.Layers)
	}
	theta := f.floatOr("rotary_emb_base", "rope.freq_base", 1000)
	c.Rotation = &graph.Rotation{Name: "angles", Pairing: graph.HalfPairs, Theta: theta, Dim: c.HeadDim}
	f.segments()
	if !f.isHF() {
		return c
	}
	if kind := f.word("activation_function"); kind != "swiglu" {
		f.fail("field activation_function is %q; swiglu is supported", kind)
	}
	for _, name := range []string{"prenorm", "parallel_block", "use_rms_norm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "rotary_emb_interleaved", "causal"} {
		if f.flag(name, false) {
			f.fail("field %s is true; only false is supported", name)
		}
	}
	if part := f.floatOr("rotary_emb_fraction", "", 1); part != 1 {
		f.fail("field rotary_emb_fraction is %g; 1 is supported", part)
	}
	if every := f.sizeOr("moe_every_n_layers", "", 0); every != 0 {
		f.fail("field moe_every_n_layers is %d; mixtures of experts are not supported", every)
	}
	// Longer texts than those it was trained on are rotated by other angles, which GGUF has no key for.
	if factor := f.floatOr("rotary_scaling_factor", "", 0); factor != 0 {
		c.Rotation.Scaling = graph.Scaling{Kind: graph.DynamicScaling, Factor: factor, OrigContext: f.sizeOr("max_trained_positions", "", 2048)}
	}
	return c
}
