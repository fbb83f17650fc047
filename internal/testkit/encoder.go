package testkit

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/ridge-llm/ridge/internal/testkit/tensorfile"
)

// Sizes of the encoders that WriteEncoder writes.
const (
	encoderHidden, encoderFFN, encoderLayers, encoderHeads = 64, 96, 2, 4

	EncoderContext = 48 // tokens
)

// encoderWords is the vocabulary: special tokens first.
var encoderWords = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "fox", "ran", "into", "the", "wood", "##s", "page", "of", "cache", "."}

// WriteEncoder writes a small encoder with a WordPiece vocabulary into dir, as Hugging Face lays such models out. architecture is
// BertModel or NomicBertModel (encoders), BertForSequenceClassification or XLMRobertaForSequenceClassification (cross-encoders of
// one label). Its weights come from a formula that testdata/crossencoder.py has too, which computes what such a model says from
// the published definitions alone.
func WriteEncoder(dir, architecture string) error {
	roberta := strings.HasPrefix(architecture, "XLMRoberta")
	files := map[string]any{"tokenizer.json": encoderTokenizer(roberta), "config.json": encoderConfig(architecture, roberta)}
	for name, v := range files {
		data, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return tensorfile.Write(filepath.Join(dir, "model.safetensors"), encoderTensors(architecture, roberta))
}

type object = map[string]any

func encoderConfig(architecture string, roberta bool) object {
	positions, types := EncoderContext, 2
	if roberta {
		positions, types = EncoderContext+2, 1
	}
	if architecture == nomic {
		return object{
			"architectures": []string{architecture}, "n_embd": encoderHidden, "n_layer": encoderLayers, "n_head": encoderHeads, "n_inner": encoderFFN, "n_positions": EncoderContext,
			"layer_norm_epsilon": 1e-12, "activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "vocab_size": len(encoderWords), "type_vocab_size": 2,
		}
	}
	return object{
		"architectures": []string{architecture}, "hidden_size": encoderHidden, "num_hidden_layers": encoderLayers, "num_attention_heads": encoderHeads,
		"intermediate_size": encoderFFN, "max_position_embeddings": positions, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "vocab_size": len(encoderWords), "type_vocab_size": types,
	}
}

func encoderTokenizer(roberta bool) object {
	vocab := map[string]int{}
	for id, word := range encoderWords {
		vocab[word] = id
	}
	var special []object
	for id, content := range encoderWords[:4] {
		special = append(special, object{"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
	}
	post := object{"type": "BertProcessing", "sep": []any{"[SEP]", 3}, "cls": []any{"[CLS]", 2}}
	if roberta {
		post["type"] = "RobertaProcessing"
	}
	return object{
		"added_tokens":   special,
		"normalizer":     object{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true},
		"pre_tokenizer":  object{"type": "BertPreTokenizer"},
		"post_processor": post,
		"decoder":        object{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model":          object{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab},
	}
}

// nomic is the architecture with rotated positions and gates.
const nomic = "NomicBertModel"

func encoderTensors(architecture string, roberta bool) (all []tensorfile.Tensor) {
	const hidden, ffn = encoderHidden, encoderFFN
	base, positions, types := "", EncoderContext, 2
	switch {
	case roberta:
		base, positions, types = "roberta.", EncoderContext+2, 1
	case architecture != "BertModel" && architecture != nomic:
		base = "bert."
	}
	add := func(name string, mean, scale float64, shape ...int) {
		n := 1
		for _, s := range shape {
			n *= s
		}
		data := make([]byte, 0, 4*n)
		for i := range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(mean+scale*formula(len(all), i))))
		}
		all = append(all, tensorfile.Tensor{Name: name, DType: "F32", Shape: shape, Data: data})
	}
	linear := func(name string, out, in int) { add(name+".weight", 0, 0.5, out, in); add(name+".bias", 0, 0.5, out) }
	norm := func(name string) { add(name+".weight", 1, 0.5, hidden); add(name+".bias", 0, 0.5, hidden) }
	add(base+"embeddings.word_embeddings.weight", 0, 2, len(encoderWords), hidden)
	if architecture == nomic {
		add("embeddings.token_type_embeddings.weight", 0, 2, types, hidden)
		norm("emb_ln")
		for i := range encoderLayers {
			at := func(name string) string { return fmt.Sprintf("encoder.layers.%d.%s", i, name) }
			add(at("attn.Wqkv.weight"), 0, 0.5, 3*hidden, hidden)
			add(at("attn.out_proj.weight"), 0, 0.5, hidden, hidden)
			norm(at("norm1"))
			add(at("mlp.fc11.weight"), 0, 0.5, ffn, hidden)
			add(at("mlp.fc12.weight"), 0, 0.5, ffn, hidden)
			add(at("mlp.fc2.weight"), 0, 0.5, hidden, ffn)
			norm(at("norm2"))
		}
		return all
	}
	add(base+"embeddings.position_embeddings.weight", 0, 1, positions, hidden)
	add(base+"embeddings.token_type_embeddings.weight", 0, 2, types, hidden)
	norm(base + "embeddings.LayerNorm")
	for i := range encoderLayers {
		at := func(name string) string { return fmt.Sprintf("%sencoder.layer.%d.%s", base, i, name) }
		for _, p := range []string{"self.query", "self.key", "self.value", "output.dense"} {
			linear(at("attention."+p), hidden, hidden)
		}
		norm(at("attention.output.LayerNorm"))
		linear(at("intermediate.dense"), ffn, hidden)
		linear(at("output.dense"), hidden, ffn)
		norm(at("output.LayerNorm"))
	}
	switch {
	case roberta:
		linear("classifier.dense", hidden, hidden)
		linear("classifier.out_proj", 1, hidden)
	case base != "":
		linear("bert.pooler.dense", hidden, hidden)
		linear("classifier", 1, hidden)
	}
	return all
}

// formula is number i of tensor t, in [-0.5, 0.5): bits mixed as hash functions do, of which a float32 holds all that are kept.
func formula(t, i int) float64 {
	x := uint32(i)*2654435761 + uint32(t)*40503 + 12345
	x ^= x >> 15
	x *= 0x2c1b3c6d
	x ^= x >> 12
	x *= 0x297a2d39
	x ^= x >> 15
	return float64(x>>9)/(1<<23) - 0.5
}
