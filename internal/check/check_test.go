package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
)

var devices = map[string]func() backend.Device{
	"ref": func() backend.Device { return ref.New() },
	"cpu": func() backend.Device {
		dev, err := cpu.New(cpu.Options{Threads: 2})
		if err != nil {
			panic(err)
		}
		return dev
	},
}

// compareDir fails the test when a device disagrees with upstream about the model in dir.
func compareDir(t *testing.T, dir string, open func() backend.Device, chunk int) {
	dev := open()
	defer dev.Close()
	res, err := Model(dir, dir, Options{Devices: []backend.Device{dev}, Cache: graph.F32, Chunk: chunk})
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK {
		t.Errorf("%+v", *res)
	}
}

// lengthDependent models rotate by the sequence's length at each step, or look at what comes after, so chunks of a prompt are
// not the whole.
var lengthDependent = map[string]bool{
	"llama-dynamic": true, "llama-longrope": true, "phi3-longrope-window": true,
	"bert": true, "roberta": true, "gemma-embedding": true, "gemma-embedding-odd": true, "llada": true, "llada-tied-bias": true, "dream": true,
}

func TestSmallModels(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/config.json")
	if err != nil || len(dirs) < 20 {
		t.Fatalf("the small models are missing: %v, %v", dirs, err)
	}
	for name, open := range devices {
		for _, file := range dirs {
			dir := filepath.Dir(file)
			t.Run(name+"/"+filepath.Base(dir), func(t *testing.T) {
				compareDir(t, dir, open, 0)
				if !lengthDependent[filepath.Base(dir)] {
					compareDir(t, dir, open, 7)
				}
			})
		}
	}
}

const shared = "../../../shared"

// supported are the reference models whose architectures Ridge knows.
var supported = []string{
	"reference/architectures/llama", "reference/architectures/llama-linear-rope", "reference/architectures/llama3-rope-scaled",
	"reference/architectures/mistral-sliding", "reference/architectures/qwen2", "reference/architectures/qwen3",
	"reference/architectures/gemma", "reference/architectures/gemma2", "reference/architectures/gemma3", "reference/architectures/gemma3n",
	"reference/architectures/phi3", "reference/architectures/gpt2", "reference/architectures/mixtral", "reference/architectures/qwen3-moe",
	"reference/architectures/gpt-oss",
	"reference/architectures/apertus", "reference/architectures/arcee", "reference/architectures/cohere", "reference/architectures/cohere2",
	"reference/architectures/ernie4.5", "reference/architectures/exaone4", "reference/architectures/glm4", "reference/architectures/gpt-neox",
	"reference/architectures/granite4-dense", "reference/architectures/hunyuan", "reference/architectures/ministral3", "reference/architectures/olmo2",
	"reference/architectures/phi", "reference/architectures/seed-oss", "reference/architectures/smollm3", "reference/architectures/stablelm",
	"reference/architectures/starcoder2", "reference/architectures/qwen2-moe", "reference/architectures/dots1", "reference/architectures/glm4-moe",
	"reference/architectures/minimax-m2", "reference/architectures/ernie4.5-moe", "reference/architectures/phimoe", "reference/architectures/llama4",
	"reference/architectures/lfm2", "reference/architectures/lfm2-moe", "reference/architectures/qwen3-next", "reference/architectures/qwen3.5",
	"reference/architectures/qwen3.5-moe", "reference/architectures/mamba", "reference/architectures/mamba2", "reference/architectures/falcon-h1",
	"reference/architectures/jamba", "reference/architectures/granite-hybrid", "reference/architectures/nemotron-h",
	"reference/architectures/deepseek-v2", "reference/architectures/deepseek-v3", "reference/architectures/deepseek-v3-yarn",
	"reference/architectures/deepseek-v3.2", "reference/architectures/glm-dsa",
	"models/stories260K/hf", "models/babyllama-tok105",
}

// encoders are reference models that read texts and write none.
var encoders = []string{"reference/architectures/bert-embed", "reference/architectures/modernbert-embed"}

func TestReferenceModels(t *testing.T) {
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the reference models in ../shared are not here")
	}
	for name, open := range devices {
		for _, dir := range slices.Concat(supported, encoders) {
			t.Run(name+"/"+dir, func(t *testing.T) { compareDir(t, filepath.Join(shared, dir), open, 0) })
		}
	}
}

// TestQuantisedCheckpoints: GPTQ, AWQ, compressed-tensors, FP8 and bitsandbytes, against the logits of their decoded weights.
func TestQuantisedCheckpoints(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(shared, "reference/quantised/*/config.json"))
	if err != nil || len(dirs) == 0 {
		t.Skip("the quantised reference models in ../shared are not here")
	}
	for name, open := range devices {
		for _, file := range dirs {
			dir := filepath.Dir(file)
			t.Run(name+"/"+filepath.Base(dir), func(t *testing.T) { compareDir(t, dir, open, 0) })
		}
	}
}

// TestReferenceGGUF: the same trained model as a GGUF file, whose pairs turn the other way.
func TestReferenceGGUF(t *testing.T) {
	file := filepath.Join(shared, "models/stories260K/stories260K.gguf")
	if _, err := os.Stat(file); err != nil {
		t.Skip("the reference models in ../shared are not here")
	}
	for name, open := range devices {
		dev := open()
		defer dev.Close()
		res, err := Model(file, filepath.Join(shared, "models/stories260K/hf"), Options{Devices: []backend.Device{dev}, Cache: graph.F32})
		if err != nil {
			t.Fatal(err)
		}
		if !res.OK {
			t.Errorf("%s: %+v", name, *res)
		}
	}
}

func TestMissingGolden(t *testing.T) {
	dev := ref.New()
	if _, err := Model(t.TempDir(), t.TempDir(), Options{Devices: []backend.Device{dev}}); err == nil {
		t.Fatal("an empty directory passed")
	}
}
