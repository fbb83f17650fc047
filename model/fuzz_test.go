package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
)

// FuzzConfig: whatever config.json says, beside the weights of a small model it is refused, or it describes a model whose graph can be made or is
// refused.
func FuzzConfig(f *testing.F) {
	dirs, err := filepath.Glob("../internal/check/testdata/*/config.json")
	if err != nil || len(dirs) == 0 {
		f.Fatal(dirs, err)
	}
	var files []*modeldir.Dir
	for i, path := range dirs {
		d, err := modeldir.Open(filepath.Dir(path))
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { d.Close() })
		config, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, d)
		f.Add(uint8(i), config)
	}
	f.Fuzz(func(t *testing.T, i uint8, config []byte) {
		m, err := model.FromHF("config.json", config, files[int(i)%len(files)])
		if err != nil {
			return
		}
		if g, err := m.Graph(model.Options{}); err == nil && len(g.Nodes) == 0 {
			t.Errorf("%s makes a graph of nothing", config)
		}
	})
}
