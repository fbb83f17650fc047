package ridge_test

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// TestEmbeddingGemma: embeddings of token ids are those that Sentence Transformers made with transformers' hidden states, through its dense layers, of a Hugging Face folder and of the GGUF file made of it.
func TestEmbeddingGemma(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"gemma-embedding", "gemma-embedding-odd"} {
		dir := withTokens(t, "internal/check/testdata/"+name, 96)
		file := filepath.Join(t.TempDir(), "gemma.gguf")
		_, err := convert.Convert(ctx, dir, file, convert.Options{})
		paths := []string{dir, file}
		if name == "gemma-embedding-odd" { // whose scores are divided by another root than that of the heads' size
			if err == nil || !strings.Contains(err.Error(), "cannot say everything") {
				t.Errorf("%s is written as GGUF: %v", name, err)
			}
			paths, err = paths[:1], nil
		}
		if err != nil {
			t.Fatal(err)
		}
		ids, want := embedded(t, filepath.Join("internal/check/testdata", name, "embeddings.safetensors"))
		for _, path := range paths {
			for backend, most := range map[string]float64{"ref": 1e-5, "cpu": 1e-4} {
				m := loadFrom(t, path, ridge.Options{Backend: backend, Cache: "f32", Threads: 1})
				if !m.Encoder() || m.Width() != 32 {
					t.Errorf("%s: an encoder: %t, of %d numbers", path, m.Encoder(), m.Width())
				}
				for i := range ids {
					e, err := m.EmbedTokens(ctx, ids[i], ridge.Greedy())
					if err != nil {
						t.Fatal(err)
					}
					for k, x := range e.Vector {
						if math.Abs(float64(x-want[i][k])) > most {
							t.Fatalf("%s on %s: number %d of text %d is %g and should be %g", path, backend, k, i, x, want[i][k])
						}
					}
				}
			}
		}
	}
}

// TestDenseInGGUF: a layer with a bias and tanh, for which GGUF has no keys, is not written without.
func TestDenseInGGUF(t *testing.T) {
	dir := withTokens(t, "internal/check/testdata/gemma-embedding", 96)
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join("internal/check/testdata/gemma-embedding-odd/2_Dense", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "2_Dense", name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := convert.Convert(t.Context(), dir, filepath.Join(t.TempDir(), "gemma.gguf"), convert.Options{}); err == nil || !strings.Contains(err.Error(), "2_Dense has a bias or goes through tanh") {
		t.Errorf("it is written as GGUF: %v", err)
	}
}

// TestDenseRefused: layers behind pooling that Ridge does not compute, or whose files are not what they say, are refused by name.
func TestDenseRefused(t *testing.T) {
	for want, change := range map[string]func(dir string) error{
		"a LayerNorm": func(dir string) error {
			return replaceIn(filepath.Join(dir, "modules.json"), "models.Dense", "models.LayerNorm")
		},
		"not one of the model's": func(dir string) error { return replaceIn(filepath.Join(dir, "modules.json"), "2_Dense", "../2_Dense") },
		`through "torch.nn.modules.activation.ReLU"`: func(dir string) error {
			return replaceIn(filepath.Join(dir, "2_Dense/config.json"), "linear.Identity", "activation.ReLU")
		},
		"3_Dense takes 80 numbers, and what comes before gives 32": func(dir string) error { return replaceIn(filepath.Join(dir, "modules.json"), "2_Dense", "3_Dense") },
		"linear.weight of 64 numbers in 2 rows and a linear.bias of 4": func(dir string) error {
			header := `{"linear.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[0,256]},"linear.bias":{"dtype":"F32","shape":[4],"data_offsets":[256,272]}}`
			file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
			return os.WriteFile(filepath.Join(dir, "2_Dense/model.safetensors"), append(file, make([]byte, 272)...), 0o600)
		},
		"2_Dense": func(dir string) error { return os.Remove(filepath.Join(dir, "2_Dense/model.safetensors")) },
		`pools by max`: func(dir string) error {
			return replaceIn(filepath.Join(dir, "1_Pooling/config.json"), `"mean"`, `"max"`)
		},
	} {
		dir := withTokenizer(t, "internal/check/testdata/gemma-embedding")
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		m, err := ridge.Load(dir, ridge.Options{Threads: 1})
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func replaceIn(file, from, to string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600)
}

// embedded are token ids and the embeddings of them, of a file with both.
func embedded(t *testing.T, path string) (ids [][]int32, vectors [][]float32) {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, x := range f.Tensors {
		for r := range x.Shape[0] {
			var row []int32
			var floats []float32
			for k := range x.Shape[1] {
				at := 4 * (r*x.Shape[1] + k)
				bits := uint32(x.Data[at]) | uint32(x.Data[at+1])<<8 | uint32(x.Data[at+2])<<16 | uint32(x.Data[at+3])<<24
				row, floats = append(row, int32(bits)), append(floats, math.Float32frombits(bits))
			}
			if x.Name == "input_ids" {
				ids = append(ids, row)
			} else {
				vectors = append(vectors, floats)
			}
		}
	}
	return ids, vectors
}
