package model_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
)

// bare is a model's file as models for embeddings are stored: without the output matrix and the base model's prefix.
type bare struct{ *modeldir.Dir }

func (b bare) Tensor(name string) (quant.Tensor, bool) {
	if name == "lm_head.weight" || strings.HasPrefix(name, "model.") {
		return quant.Tensor{}, false
	}
	return b.Dir.Tensor("model." + name)
}

// TestEmbeddingModel: Qwen3-Embedding's class and file make a graph with hidden states, and a warning that its text has no meaning.
func TestEmbeddingModel(t *testing.T) {
	const dir = "../internal/check/testdata/qwen3-bias"
	d, err := modeldir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	config, err := os.ReadFile(dir + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	config = []byte(strings.NewReplacer("Qwen3ForCausalLM", "Qwen3Model", `"tie_word_embeddings": true`, `"tie_word_embeddings": false`).Replace(string(config)))
	m, err := model.FromHF("config.json", config, bare{d})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], "no output matrix") {
		t.Errorf("warnings %q", m.Warnings)
	}
	g, err := m.Graph(model.Options{Act: graph.F32, Cache: graph.F16, AllHidden: true})
	if err != nil {
		t.Fatal(err)
	}
	if g.Hidden == nil || g.Hidden.Axis.Len() != m.Config.Hidden {
		t.Errorf("hidden states %v", g.Hidden)
	}
}
