package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
)

const shared = "../../../shared"

// supported are the reference models whose architectures Ridge knows.
var supported = []string{
	"reference/architectures/llama", "reference/architectures/llama-linear-rope", "reference/architectures/llama3-rope-scaled",
	"reference/architectures/mistral-sliding", "reference/architectures/qwen2", "reference/architectures/qwen3",
	"reference/architectures/gemma3", "reference/architectures/phi3", "reference/architectures/gpt2",
	"models/stories260K/hf", "models/babyllama-tok105",
}

func TestReferenceModels(t *testing.T) {
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the reference models in ../shared are not here")
	}
	for name, open := range map[string]func() backend.Device{
		"ref": func() backend.Device { return ref.New() },
		"cpu": func() backend.Device { return cpu.New(2) },
	} {
		for _, dir := range supported {
			t.Run(name+"/"+filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
				dev := open()
				defer dev.Close()
				res, err := Dir(filepath.Join(shared, dir), Options{Device: dev, Cache: graph.F32})
				if err != nil {
					t.Fatal(err)
				}
				if !res.OK {
					t.Errorf("%+v", *res)
				}
				t.Logf("worst error %.2g over %d rows, greedy %d of %d", res.WorstError, res.Rows, res.GreedySame, res.Greedy)
			})
		}
	}
}
