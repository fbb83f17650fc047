package model

import (
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// gemma3n is Gemma 3n's text model: several residual streams of which a layer computes with one (AltUp, Baykal et al., NeurIPS 2023), small
// matrices beside attention (Laurel, arXiv:2411.07501), embeddings of each layer's own, sparse gates in the first layers, and last layers
// that attend to keys and values of an earlier one.
var gemma3n = Arch{
	Name: "gemma3n",
	HF:   []string{"Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"},
	TextDefaults: map[string]any{
		"vocab_size": 262400.0, "vocab_size_per_layer_input": 262144.0, "hidden_size": 2048.0, "hidden_size_per_layer_input": 256.0,
		"num_hidden_layers": 35.0, "num_attention_heads": 8.0, "num_key_value_heads": 2.0, "head_dim": 256.0, "max_position_embeddings": 32768.0,
		"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window": 512.0, "final_logit_softcapping": 30.0, "num_kv_shared_layers": 15.0,
		"altup_num_inputs": 4.0, "altup_active_idx": 0.0, "laurel_rank": 64.0,
	},
	Read: func(f *fields) *Config {
		widths := f.perLayer("intermediate_size", "feed_forward_length")
		if v := f.value("intermediate_size"); f.isHF() && v != nil && widths == nil {
			f.fail("field intermediate_size is %v and a list of each layer's width is wanted", v)
		}
		c := gemmaLike(f)
		c.AttnScale = 1 // the norm of queries has it
		f.layerFFN(c, widths)
		c.LogitCap = f.floatOr("final_logit_softcapping", "final_logit_softcapping", 30)
		f.listedWindows(c, f.sizeOr("sliding_window", "attention.sliding_window", 512), 5)
		gemmaRotations(f, c)
		f.readPerLayer(c, 256)
		c.SharedKV = f.sizeOr("num_kv_shared_layers", "attention.shared_kv_layers", 15)
		f.checkShared(c)
		s := &c.Streams
		s.Count, s.Active = f.sizeOr("altup_num_inputs", "altup.num_inputs", 4), f.sizeOr("altup_active_idx", "altup.active_idx", 0)
		if s.Count < 2 || s.Count > 64 || s.Active >= s.Count {
			f.fail("layers compute with stream %d of %d (altup_active_idx, altup_num_inputs); 2 to 64 streams are possible", s.Active, s.Count)
		}
		s.Rank = f.sizeOr("laurel_rank", "", 64)
		if rows, ok := f.tensor("blk.0.laurel_l.weight"); ok {
			s.Rank = rows
		}
		if s.Rank < 1 || s.Rank > maxSize {
			f.fail("field laurel_rank is %d; 1 to %d are possible", s.Rank, maxSize)
		}
		f.only("altup_correct_scale", true)
		f.ignored("altup_coef_clip") // trained coefficients keep to it
		f.sparsity(c)
		return c
	},
	Names: merged(sandwichNames, gemmaLayers, map[string]string{
		"altup_proj":                       "model.altup_projections.0",
		"altup_unembd_proj":                "model.altup_unembed_projections.0",
		"blk.N.altup_router":               "model.layers.N.altup.modality_router",
		"blk.N.altup_router_norm":          "model.layers.N.altup.router_norm",
		"blk.N.altup_predict_coef":         "model.layers.N.altup.prediction_coefs",
		"blk.N.altup_correct_coef":         "model.layers.N.altup.correction_coefs",
		"blk.N.altup_correct_scale.weight": "model.layers.N.altup.correct_output_scale",
		"blk.N.laurel_l":                   "model.layers.N.laurel.linear_left",
		"blk.N.laurel_r":                   "model.layers.N.laurel.linear_right",
		"blk.N.laurel_post_norm":           "model.layers.N.laurel.post_laurel_norm",
	}),
	Recipe: func(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
		first, ok := t.(recipe.Tensor)
		if !ok || stem != "altup_proj.weight" && stem != "altup_unembd_proj.weight" {
			return t
		}
		var all recipe.Stack
		for i := range c.Streams.Count - 1 {
			all = append(all, recipe.Tensor(layerStack(string(first), i)))
		}
		return all
	},
	Build: buildGemma3n,
}

// buildGemma3n is a decoder of several streams: a layer predicts them, computes with the active one, and corrects them by what it got.
func buildGemma3n(b *graph.Builder, c *Config) *graph.Value {
	const eps = 1e-5 // of mean squares
	others := graph.Axis{Name: "streams", Count: c.Streams.Count - 1, Size: c.Hidden}
	x := embedding(b, c)
	own := perLayerEmbeddings(b, c, x)
	x = b.ExpandStreams("streams", x, b.Linear("altup_proj", x, b.Weight("altup_proj.weight", others, x.Axis), nil), eps)
	stores := make([]*graph.Value, c.Layers)
	for i := range c.Layers {
		x = newLayer(b, c, i).altUp(x, own, stores)
	}
	b.Layer(graph.NoLayer)
	x = b.SelectRows("selected", x)
	stack := graph.Axis{Name: "streams", Count: others.Count, Size: 1}
	row := graph.Axis{Name: "hidden", Count: c.Hidden, Size: 1}
	y := b.HeadLinear("altup_unembd_proj", b.Columns("other_streams", x, c.Hidden, others), b.Stack("altup_unembd_proj.weight", stack, row, row), 0)
	x = b.MeanStreams("streams_mean", b.ExpandStreams("unembedded", b.Columns("first_stream", x, 0, row), y, eps))
	return logits(b, c, norm(b, c, "output_norm", x))
}

// layerStack is a name of a matrix that a file has once for each stream, with the number of one of them: "model.altup_projections.2.weight".
func layerStack(first string, i int) string {
	return strings.Replace(first, ".0.", fmt.Sprintf(".%d.", i), 1)
}
