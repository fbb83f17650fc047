package model_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
)

// TestLayers: a node belongs to the layer whose weights it reads and whose cache it writes; embeddings, angles and heads to none.
func TestLayers(t *testing.T) {
	configs, err := filepath.Glob("../internal/check/testdata/*/config.json")
	if err != nil || len(configs) == 0 {
		t.Fatalf("the small models are missing: %v", err)
	}
	for _, config := range configs {
		b, err := modeldir.Open(filepath.Dir(config))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
		if err != nil {
			t.Fatal(err)
		}
		if g.Layers() != b.Model.Config.Layers {
			t.Errorf("%s: %d layers of %d", config, g.Layers(), b.Model.Config.Layers)
		}
		for _, n := range g.Nodes {
			want, name := graph.NoLayer, n.Out[0].Name
			if c := n.Out[0].Cache; c != nil {
				want = c.Layer
			} else if strings.HasPrefix(name, "blk.") {
				if _, err := fmt.Sscanf(name, "blk.%d.", &want); err != nil {
					t.Fatal(err)
				}
			}
			if n.Layer != want {
				t.Errorf("%s: %s belongs to layer %d; %d is right", config, name, n.Layer, want)
			}
		}
	}
}
