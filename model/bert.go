package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
)

// bert is BERT (Devlin et al., 2018), as encoders for embeddings use it (bge, e5, gte, MiniLM …) and cross-encoders: learned
// positions, a row for each of two texts, LayerNorm after each block and bidirectional attention.
var bert = Arch{
	Name:  "bert",
	HF:    []string{"BertModel", "BertForMaskedLM", "BertForSequenceClassification"},
	Read:  func(f *fields) *Config { return readEncoder(f, 0) },
	Names: encoderNames("bert"),
	Build: buildEncoder,
}

// roberta is RoBERTa (Liu et al., 2019): BERT whose positions are counted from the one after the padding token.
var roberta = Arch{
	Name:  "bert", // GGUF files leave the rows of positions out that are not used, which makes it BERT
	HF:    []string{"RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification", "CamembertModel"},
	Read:  func(f *fields) *Config { return readEncoder(f, robertaOffset) },
	Names: encoderNames("roberta"),
	Build: buildEncoder,
}

// xlmRoberta is XLM-RoBERTa (Conneau et al., 2019), the same over another vocabulary: multilingual-e5, bge-m3.
var xlmRoberta = Arch{
	Name:  "bert",
	HF:    []string{"XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification"},
	Read:  func(f *fields) *Config { return readEncoder(f, robertaOffset) },
	Names: encoderNames("roberta"),
	Build: buildEncoder,
}

// robertaOffset is the row of a RoBERTa position table that position 0 has: the padding token's id and one.
const robertaOffset = 2

func readEncoder(f *fields, offset int) *Config {
	c := &Config{
		Hidden:  f.size("hidden_size", "embedding_length"),
		Layers:  f.size("num_hidden_layers", "block_count"),
		Heads:   f.size("num_attention_heads", "attention.head_count"),
		FFN:     f.size("intermediate_size", "feed_forward_length"),
		Context: f.size("max_position_embeddings", "context_length") - offset,
		NormEps: f.floatOr("layer_norm_eps", "attention.layer_norm_epsilon", 1e-12),
		Vocab:   f.vocabulary(),
		Act:     f.activation("hidden_act", graph.GeluErf),
		QKVBias: true, OutBias: true, MLPBias: true,
		Encoder: true, FirstPosition: offset,
	}
	if kind := f.word("position_embedding_type"); kind != "" && kind != "absolute" {
		f.fail("field position_embedding_type is %q; absolute is supported", kind)
	}
	if f.isHF() && f.flag("is_decoder", false) {
		f.fail("field is_decoder is true; only encoders are supported")
	}
	f.note("context_length", uint32(c.Context)) // without the rows in front, which a GGUF file has not
	f.segments()
	f.ignored("tie_word_embeddings") // of the head for masked words, which is not used
	c.KVHeads, c.HeadDim = c.Heads, c.Hidden/max(c.Heads, 1)
	c.AttnScale = 1 / math.Sqrt(float64(c.HeadDim))
	if c.Layers <= maxLayers {
		c.Windows = make([]int, c.Layers)
	}
	return c
}

// segments notes how many kinds of text have a row in the table for them, of at most the two that are used: llama.cpp loads no BERT whose file does
// not say. A field of config.json that is not there means 2.
func (f *fields) segments() {
	n := f.sizeOr("type_vocab_size", "", 2)
	if !f.isHF() && f.files != nil {
		t, _ := f.files.Tensor("token_types.weight")
		n = t.Rows
	}
	f.note("/tokenizer.ggml.token_type_count", uint32(min(n, 2)))
}

// encoderNames are a BERT's weights in Hugging Face files, under the base model's name or bare.
func encoderNames(base string) map[string]string {
	return under(base, map[string]string{
		"token_embd":              "embeddings.word_embeddings",
		"position_embd":           "embeddings.position_embeddings",
		"token_types":             "embeddings.token_type_embeddings",
		"token_embd_norm":         "embeddings.LayerNorm",
		"blk.N.attn_q":            "encoder.layer.N.attention.self.query",
		"blk.N.attn_k":            "encoder.layer.N.attention.self.key",
		"blk.N.attn_v":            "encoder.layer.N.attention.self.value",
		"blk.N.attn_output":       "encoder.layer.N.attention.output.dense",
		"blk.N.attn_output_norm":  "encoder.layer.N.attention.output.LayerNorm",
		"blk.N.ffn_up":            "encoder.layer.N.intermediate.dense",
		"blk.N.ffn_down":          "encoder.layer.N.output.dense",
		"blk.N.layer_output_norm": "encoder.layer.N.output.LayerNorm",
	})
}

// buildEncoder is BERT: attention and a plain feed-forward block.
func buildEncoder(b *graph.Builder, c *Config) *graph.Value {
	return encoder(b, c, layer.selfAttention, layer.plain)
}

// encoder gives the hidden states of every token; logits an encoder for embeddings has none. Both blocks of a layer add to the
// stream, which is normalised behind them.
func encoder(b *graph.Builder, c *Config, attention, feed func(l layer, x *graph.Value) *graph.Value) *graph.Value {
	x := embedding(b, c)
	if c.Rotation == nil {
		positions := graph.Axis{Name: "positions", Count: c.Context, Size: 1}
		x = b.Add("embd_sum", x, b.EmbedPosition("pos", b.Part("position_embd.weight", c.FirstPosition, positions, c.hidden())))
	}
	if b.Has("token_types.weight") {
		types := graph.Axis{Name: "types", Count: min(max(b.Rows("token_types.weight"), 1), 2), Size: 1}
		x = b.Add("type_sum", x, b.EmbedSegment("type", b.Part("token_types.weight", 0, types, c.hidden())))
	}
	x = b.LayerNorm("embd_norm", x, b.Vector("token_embd_norm.weight", c.hidden()), b.Vector("token_embd_norm.bias", c.hidden()), c.NormEps)
	for i := range c.Layers {
		l := newLayer(b, c, i)
		x = l.layerNorm("attn_output_norm", l.add("attn_sum", x, attention(l, x)))
		x = l.layerNorm("layer_output_norm", l.add("ffn_sum", x, feed(l, x)))
	}
	b.Layer(graph.NoLayer)
	b.Hidden(x)
	return b.SelectRows("selected", x)
}
