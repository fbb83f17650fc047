package weights

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

const shared = "../../shared"

func needShared(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the reference data of ../shared is not here")
	}
}

// TestStories260K opens one model as GGUF and as a Hugging Face directory and wants the same numbers.
func TestStories260K(t *testing.T) {
	needShared(t)
	g, err := Open(shared + "/models/stories260K/stories260K.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	h, err := Open(shared + "/models/stories260K/hf")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if g.Kind != GGUF || h.Kind != HuggingFace || h.Config == nil || g.Metadata["general.architecture"] != "llama" {
		t.Fatalf("kinds %s and %s, architecture %v", g.Kind, h.Kind, g.Metadata["general.architecture"])
	}
	if tokens, ok := g.Metadata["tokenizer.ggml.tokens"].([]string); !ok || len(tokens) != 512 {
		t.Errorf("the vocabulary is %T", g.Metadata["tokenizer.ggml.tokens"])
	}
	for gn, hn := range map[string]string{
		"token_embd.weight":        "model.embed_tokens.weight",
		"blk.2.ffn_down.weight":    "model.layers.2.mlp.down_proj.weight",
		"blk.4.attn_norm.weight":   "model.layers.4.input_layernorm.weight",
		"output_norm.weight":       "model.norm.weight",
		"blk.0.attn_v.weight":      "model.layers.0.self_attn.v_proj.weight",
		"blk.0.attn_output.weight": "model.layers.0.self_attn.o_proj.weight",
	} {
		a, b := decode(t, g, gn), decode(t, h, hn)
		if len(a) != len(b) {
			t.Errorf("%s has %d numbers, %s has %d", gn, len(a), hn, len(b))
			continue
		}
		for i := range a {
			if a[i] != b[i] {
				t.Errorf("%s and %s differ at %d: %v and %v", gn, hn, i, a[i], b[i])
				break
			}
		}
	}
}

func decode(t *testing.T, s *Source, name string) []float32 {
	t.Helper()
	m, err := s.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, m.Rows*m.Cols)
	quant.Decode(m.Format, x, m.Data)
	return x
}

// TestReferenceFiles opens every model and golden file of ../shared.
func TestReferenceFiles(t *testing.T) {
	needShared(t)
	dirs, err := filepath.Glob(shared + "/reference/architectures/*")
	if err != nil {
		t.Fatal(err)
	}
	models, err := filepath.Glob(shared + "/models/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(dirs, models...) {
		if filepath.Base(dir) == "stories260K" {
			continue // holds its model in a folder of its own
		}
		s, err := Open(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, name := range s.Names() {
			if _, err := s.Tensor(name); err != nil {
				t.Error(err)
			}
		}
		if len(s.Names()) == 0 {
			t.Errorf("%s has no tensors", dir)
		}
		s.Close()
	}
	for _, dir := range dirs {
		f, err := safetensors.Open(dir + "/golden.safetensors")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, x := range f.Tensors {
			if x.Name == "input_ids" && (x.DType != "I32" && x.DType != "I64" || len(x.Shape) != 2 || x.Shape[1] != 48) {
				t.Errorf("%s: input_ids are %s %d", dir, x.DType, x.Shape)
			}
		}
		f.Close()
	}
	vocabs, err := filepath.Glob(shared + "/reference/tokenizers/gguf/*.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range vocabs {
		s, err := Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if tokens, _ := s.Metadata["tokenizer.ggml.tokens"].([]string); len(tokens) < 30000 {
			t.Errorf("%s has %d tokens", path, len(tokens))
		}
		s.Close()
	}
}

// BenchmarkOpenVocabulary opens a file whose header is two megabytes of vocabulary and merges.
func BenchmarkOpenVocabulary(b *testing.B) {
	needShared(b)
	for b.Loop() {
		s, err := Open(shared + "/reference/tokenizers/gguf/ggml-vocab-falcon.gguf")
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
