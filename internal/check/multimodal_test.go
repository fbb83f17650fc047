package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit/tensorfile"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// TestLanguagePart: a multimodal model's language part is found under the names and in the part of the configuration
// that transformers gives it, and computes what it computes alone.
func TestLanguagePart(t *testing.T) {
	const alone = "testdata/gemma3-pattern"
	for _, prefix := range []string{"language_model.", "model.language_model."} {
		dir := t.TempDir()
		var config map[string]any
		data, err := os.ReadFile(alone + "/config.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &config); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"architectures", "rms_norm_eps"} { // the second is left to the class's default
			delete(config, key)
		}
		data, err = json.Marshal(map[string]any{"architectures": []string{"Gemma3ForConditionalGeneration"}, "text_config": config})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		renamed(t, alone+"/model.safetensors", filepath.Join(dir, "model.safetensors"), prefix)
		golden, err := os.ReadFile(alone + "/golden.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "golden.safetensors"), golden, 0o644); err != nil {
			t.Fatal(err)
		}
		res, err := Model(dir, dir, Options{Devices: []backend.Device{ref.New()}, Cache: graph.F32})
		if err != nil {
			t.Fatal(err)
		}
		if !res.OK {
			t.Errorf("%s: %+v", prefix, *res)
		}
	}
}

// renamed copies a safetensors file with its tensors' names under a prefix, in the place of "model." for the longer one.
func renamed(t *testing.T, from, to, prefix string) {
	t.Helper()
	f, err := safetensors.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []tensorfile.Tensor
	for _, s := range f.Tensors {
		name := prefix + s.Name
		if prefix != "language_model." {
			name = prefix + s.Name[len("model."):]
		}
		out = append(out, tensorfile.Tensor{Name: name, DType: string(s.DType), Shape: s.Shape, Data: s.Data})
	}
	if err := tensorfile.Write(to, out); err != nil {
		t.Fatal(err)
	}
}
