package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/check"
	"github.com/ridge-llm/ridge/pass"
)

// cannot are the small models that GGUF's keys cannot describe, and what the refusal says they would lose.
var cannot = map[string]string{
	"llama-gelu":          "its act is gelu, and a reader would take silu",
	"llama-dynamic":       "its rotation is theta 10000, 8 half, dynamic ×2 from 24",
	"llama-yarn-full":     "its rotation is",
	"gpt2-inner-scaled":   "its act is relu, and a reader would take gelu_tanh",
	"gpt2-untied":         "its attn scale is 1, and a reader would take 0.25",
	"qwen2-windows":       "its windows is [0 10 10], and a reader would take [0 0 0]",
	"gemma3-scaled":       "its attn scale is",
	"gemma-embedding-odd": "its attn scale is",
	"qwen3moe-ofall":      "its experts is 3 of 7, silu, not renormalised",
	"qwen3next-dense":     "its dense is [true false true false], and a reader would take []",
	"mamba2-groups":       "its ssm is {{} 8 8 2 16 0.001 0.5}, and a reader", // bounds of its steps
}

const shared = "../../../shared"

// goldenDirs are the small models of internal/check and, where they are, those of ../shared.
func goldenDirs(t *testing.T) []string {
	t.Helper()
	own, err := filepath.Glob("../check/testdata/*/config.json")
	if err != nil || len(own) < 20 {
		t.Fatalf("the small models are missing: %v, %v", own, err)
	}
	var dirs []string
	for _, file := range own {
		dirs = append(dirs, filepath.Dir(file))
	}
	for _, name := range []string{"llama", "llama-linear-rope", "llama3-rope-scaled", "mistral-sliding", "qwen2", "qwen3", "gemma3", "phi3", "gpt2", "mixtral", "qwen3-moe", "gpt-oss",
		"apertus", "arcee", "cohere", "cohere2", "ernie4.5", "exaone4", "glm4", "gpt-neox", "granite4-dense", "hunyuan", "ministral3", "olmo2", "phi",
		"seed-oss", "smollm3", "stablelm", "starcoder2",
		"lfm2", "lfm2-moe", "qwen3-next", "qwen3.5", "qwen3.5-moe", "mamba", "mamba2", "jamba", "falcon-h1", "granite-hybrid", "nemotron-h",
		"deepseek-v2", "deepseek-v3", "deepseek-v3.2", "glm-dsa", "gemma3n",
		"qwen2-moe", "dots1", "glm4-moe", "minimax-m2", "ernie4.5-moe", "phimoe", "llama4", "modernbert-embed"} {
		if dir := filepath.Join(shared, "reference/architectures", name); exists(dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, name := range []string{"stories260K/hf", "babyllama-tok105"} {
		if dir := filepath.Join(shared, "models", name); exists(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestGoldens converts every model that has results from upstream, and wants the same results from the GGUF file: the
// order of rows, norms, transposed and fused matrices, rotations and settings are right or the logits are wrong.
func TestGoldens(t *testing.T) {
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, dir := range goldenDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "m.gguf")
			f32, err := ParseType("F32")
			if err != nil {
				t.Fatal(err)
			}
			_, err = Convert(t.Context(), dir, out, Options{Type: f32})
			if want := cannot[filepath.Base(dir)]; want != "" {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("GGUF cannot say what this model is, but the error is %v; want one with %q", err, want)
				}
				if exists(out) {
					t.Error("the file is there all the same")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			res, err := check.Model(out, dir, check.Options{Devices: []backend.Device{dev}, Cache: graph.F32})
			if err != nil {
				t.Fatal(err)
			}
			if !res.OK {
				t.Errorf("%+v", *res)
			}
		})
	}
}

// TestTiledLayouts: GGUF files have value heads in another order than Hugging Face's, so that a device's lie apart; two devices compute what one does.
func TestTiledLayouts(t *testing.T) {
	dir := filepath.Join(shared, "reference/architectures/qwen3.5")
	if !exists(dir) {
		t.Skip("the reference models are not here")
	}
	f32, err := ParseType("F32")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "tiled.gguf")
	if _, err := Convert(t.Context(), dir, out, Options{Type: f32}); err != nil {
		t.Fatal(err)
	}
	o := check.Options{Cache: graph.F32, Layout: pass.Layout{Tensor: 2, Pipeline: 1, Data: 1}}
	for range 2 {
		dev, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		o.Devices = append(o.Devices, dev)
	}
	res, err := check.Model(out, dir, o)
	if err != nil || !res.OK {
		t.Errorf("%+v, %v", res, err)
	}
}
