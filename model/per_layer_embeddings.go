package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
)

// Embeddings of each layer's own, as Gemma 3n and Gemma 4 have them.

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
