package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
)

// gemma3 is Gemma 3's text model (arXiv:2503.19786): norms before and after each block, scaled embeddings, normalised
// queries and keys, and windows with a rotation of their own on five layers of six.
var gemma3 = Arch{
	Name: "gemma3",
	HF:   []string{"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3TextModel"},
	TextDefaults: map[string]any{
		"vocab_size": 262208.0, "num_attention_heads": 8.0, "num_key_value_heads": 4.0, "head_dim": 256.0,
		"max_position_embeddings": 131072.0, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "query_pre_attn_scalar": 256.0,
		"hidden_size": 2304.0, "intermediate_size": 9216.0, "num_hidden_layers": 26.0, "sliding_window": 4096.0,
	},
	Read: func(f *fields) *Config {
		c := gemmaLike(f)
		scalar := c.HeadDim
		if !f.isHF() && c.Layers == 62 { // the 27B model's is another, which GGUF files leave readers to know
			scalar = c.Hidden / max(c.Heads, 1)
		}
		c.LogitCap = f.floatOr("final_logit_softcapping", "final_logit_softcapping", 0)
		return readGemma3(f, c, scalar)
	},
	Names:  sandwichNames,
	Recipe: gemmaRecipe,
	Build:  sandwich,
}

// GemmaEmbedding is what GGUF files call EmbeddingGemma, which may have layers behind pooling.
const GemmaEmbedding = "gemma-embedding"

// gemmaEmbedding is EmbeddingGemma (arXiv:2509.20354): Gemma 3 as an encoder, whose tokens see those before and behind them, on layers with a window those up to half of it away.
var gemmaEmbedding = Arch{
	Name: GemmaEmbedding,
	HF:   []string{"Gemma3TextModel"},
	Is: func(f *fields) bool {
		both, _ := f.value("use_bidirectional_attention").(bool)
		return both
	},
	Read: func(f *fields) *Config {
		f.only("use_bidirectional_attention", true)
		c := gemmaFamily(f)
		c.Encoder = true
		f.ignored("tie_word_embeddings", "final_logit_softcapping") // of logits, of which there are none
		return readGemma3(f, c, c.HeadDim)
	},
	Names:  sandwichNames,
	Recipe: gemmaRecipe,
	Build: func(b *graph.Builder, c *Config) *graph.Value {
		x := sandwiched(b, c)
		b.Layer(graph.NoLayer)
		x = norm(b, c, "output_norm", x)
		b.Hidden(x)
		return b.SelectRows("selected", x)
	},
}

// readGemma3 reads what Gemma 3 has beside the rest of its family: the square of what scores are divided by, unless a field says another, windows and rotations.
func readGemma3(f *fields, c *Config, scalar int) *Config {
	c.QKNorm = true
	c.AttnScale = 1 / math.Sqrt(f.floatOr("query_pre_attn_scalar", "", float64(scalar)))
	every := max(1, f.sizeOr("sliding_window_pattern", "attention.sliding_window_pattern", f.sizeOr("_sliding_window_pattern", "", 6)))
	f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 4096), func(i int) bool { return (i+1)%every != 0 })
	f.notePattern(c)
	gemmaRotations(f, c)
	return c
}

// gemmaRotations reads the rotation of layers that see everything and that of layers with a window.
func gemmaRotations(f *fields, c *Config) {
	if !f.isHF() {
		c.Rotation = f.rotation(c, graph.HalfPairs)
		local := *c.Rotation
		local.Name, local.Theta, local.Scaling = "local_angles", f.floatOr("", "rope.freq_base_swa", 10000), graph.Scaling{}
		c.Windowed = &local
		return
	}
	if both := f.object("rope_parameters"); both["full_attention"] != nil {
		full, local := f.part(both, "full_attention"), f.part(both, "sliding_attention")
		c.Windowed = f.hfRotation(c, "local_angles", local)
		f.note("rope.freq_base_swa", float32(c.Windowed.Theta))
		c.Rotation = f.hfRotation(c, "angles", full)
		return
	}
	c.Rotation = f.rotation(c, graph.HalfPairs)
	local := *c.Rotation
	local.Name, local.Theta, local.Scaling = "local_angles", f.floatOr("rope_local_base_freq", "rope.freq_base_swa", 10000), graph.Scaling{}
	c.Windowed = &local
}
