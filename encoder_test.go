package ridge_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// encoderDir writes a random BERT of two layers with a WordPiece vocabulary, as Hugging Face lays such a model out.
func encoderDir(t *testing.T) string {
	t.Helper()
	const hidden, ffn, positions = 64, 96, 48
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "fox", "ran", "into", "the", "wood", "##s", "page", "of", "cache", "."}
	dir, rnd := t.TempDir(), rand.New(rand.NewPCG(4, 4))
	var all []safetensors.Output
	add := func(name string, mean float64, shape ...int) {
		n := 1
		for _, s := range shape {
			n *= s
		}
		data := make([]byte, 0, 4*n)
		for range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(mean+0.2*rnd.NormFloat64())))
		}
		all = append(all, safetensors.Output{Name: name, DType: "F32", Shape: shape, Data: func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}})
	}
	linear := func(name string, out, in int) { add(name+".weight", 0, out, in); add(name+".bias", 0, out) }
	norm := func(name string) { add(name+".weight", 1, hidden); add(name+".bias", 0, hidden) }
	add("embeddings.word_embeddings.weight", 0, len(words), hidden)
	add("embeddings.position_embeddings.weight", 0, positions, hidden)
	add("embeddings.token_type_embeddings.weight", 0, 2, hidden)
	norm("embeddings.LayerNorm")
	for i := range 2 {
		at := func(name string) string { return fmt.Sprintf("encoder.layer.%d.%s", i, name) }
		for _, p := range []string{"self.query", "self.key", "self.value", "output.dense"} {
			linear(at("attention."+p), hidden, hidden)
		}
		norm(at("attention.output.LayerNorm"))
		linear(at("intermediate.dense"), ffn, hidden)
		linear(at("output.dense"), hidden, ffn)
		norm(at("output.LayerNorm"))
	}
	vocab := map[string]int{}
	for id, word := range words {
		vocab[word] = id
	}
	write := func(name string, v any) {
		data, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	type object = map[string]any
	write("config.json", object{
		"architectures": []string{"BertModel"}, "hidden_size": hidden, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": ffn,
		"max_position_embeddings": positions, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "vocab_size": len(words), "type_vocab_size": 2,
	})
	special := func(id int, content string) object {
		return object{"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}
	}
	write("tokenizer.json", object{
		"added_tokens":   []object{special(0, "[PAD]"), special(1, "[UNK]"), special(2, "[CLS]"), special(3, "[SEP]")},
		"normalizer":     object{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true},
		"pre_tokenizer":  object{"type": "BertPreTokenizer"},
		"post_processor": object{"type": "BertProcessing", "sep": []any{"[SEP]", 3}, "cls": []any{"[CLS]", 2}},
		"decoder":        object{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model":          object{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab},
	})
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, nil, all); err != nil {
		t.Fatal(err)
	}
	return dir
}

func loadEncoder(t *testing.T, path string, o ridge.Options) *ridge.Model {
	t.Helper()
	m, err := ridge.Load(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestEncoder: an encoder's vectors are the reference backend's, from a Hugging Face directory and from the GGUF file made of
// it, whoever computes beside them; the mean, the first token's or the last one's, as asked or as the files say.
func TestEncoder(t *testing.T) {
	ctx, dir := context.Background(), encoderDir(t)
	file := filepath.Join(t.TempDir(), "bert.gguf")
	if _, err := convert.Convert(ctx, dir, file, convert.Options{}); err != nil {
		t.Fatal(err)
	}
	texts := []string{"A fox ran into the woods.", "the cache", "page of the cache of a fox ran into the woods of the page . . ."}
	embed := func(m *ridge.Model, text string) []float32 {
		e, err := m.Embed(ctx, text)
		if err != nil {
			t.Fatal(err)
		}
		return e.Vector
	}
	vectors := map[string][]float32{}
	for _, pooling := range []string{ridge.PoolMean, ridge.PoolCLS, ridge.PoolLast} {
		ref := loadEncoder(t, dir, ridge.Options{Backend: "ref", Pooling: pooling, Cache: "f32"})
		for name, m := range map[string]*ridge.Model{
			"directory": loadEncoder(t, dir, ridge.Options{Pooling: pooling}), "GGUF": loadEncoder(t, file, ridge.Options{Pooling: pooling}),
		} {
			var together sync.WaitGroup
			for _, text := range slices.Repeat(texts, 4) {
				together.Go(func() {
					e, err := m.Embed(ctx, text)
					if err != nil {
						t.Error(err)
					} else if cos := dot(e.Vector, embed(ref, text)); math.Abs(cos-1) > 1e-4 {
						t.Errorf("%s, %s: cosine to the reference %g", name, pooling, cos)
					}
				})
			}
			together.Wait()
		}
		vectors[pooling] = embed(ref, texts[0])
	}
	if dot(vectors[ridge.PoolMean], vectors[ridge.PoolCLS]) > 0.999 || dot(vectors[ridge.PoolCLS], vectors[ridge.PoolLast]) > 0.999 {
		t.Error("the ways of pooling give the same vector")
	}
	if got := embed(loadEncoder(t, dir, ridge.Options{Backend: "ref", Cache: "f32"}), texts[0]); !slices.Equal(got, vectors[ridge.PoolMean]) {
		t.Error("without a word in the files an encoder's vector is not the mean")
	}
	if err := os.MkdirAll(filepath.Join(dir, "1_Pooling"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "1_Pooling/config.json"), []byte(`{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := embed(loadEncoder(t, dir, ridge.Options{Backend: "ref", Cache: "f32"}), texts[0]); !slices.Equal(got, vectors[ridge.PoolCLS]) {
		t.Error("1_Pooling/config.json asks for the first token, and the vector is another")
	}
}

// TestEncoderRefusals: no text comes out of an encoder, no text is computed in parts, and a long one is refused with numbers.
func TestEncoderRefusals(t *testing.T) {
	dir := encoderDir(t)
	m := loadEncoder(t, dir, ridge.Options{})
	if !m.Encoder() {
		t.Error("the model does not say that it is an encoder")
	}
	for _, err := range m.Generate(context.Background(), "a fox", ridge.Greedy()) {
		if err == nil || !strings.Contains(err.Error(), "the model is an encoder") {
			t.Errorf("generating gave %v", err)
		}
	}
	if _, err := m.Embed(context.Background(), strings.Repeat("fox ", 60)); err == nil || !strings.Contains(err.Error(), "the text has 62 tokens and the context is 48") {
		t.Errorf("a long text gave %v", err)
	}
	o := ridge.Options{Parallel: 1}
	o.Engine.StepTokens = 32
	if small, err := ridge.Load(dir, o); err == nil || !strings.Contains(err.Error(), "an encoder computes in one step") {
		t.Errorf("steps shorter than texts gave %v", err)
		if err == nil {
			small.Close()
		}
	}
}
