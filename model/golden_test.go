package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestGraphs compares the text of every small model's graph, as built and after each pass, with testdata. A
// refactoring changes none of them; UPDATE=1 go test rewrites them.
func TestGraphs(t *testing.T) {
	configs, err := filepath.Glob("../internal/check/testdata/*/config.json")
	if err != nil || len(configs) == 0 {
		t.Fatalf("the small models are missing: %v", err)
	}
	for _, config := range configs {
		dir := filepath.Dir(config)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			b, err := modeldir.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
			if err != nil {
				t.Fatal(err)
			}
			text := "# as built\n" + g.String()
			for _, p := range pass.List {
				before := g
				if g, err = p.Run(g, pass.Options{Q8: true}); err != nil {
					t.Fatal(err)
				}
				if g != before { // a pass that had nothing to do
					text += "\n# after " + p.Name + "\n" + g.String()
				}
			}
			compare(t, filepath.Join("testdata", filepath.Base(dir)+".txt"), text)
		})
	}
}

// compare holds text to a golden file.
func compare(t *testing.T, file, text string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; UPDATE=1 go test makes it", err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Errorf("%s differs (-golden +now); UPDATE=1 go test rewrites it:\n%s", file, d)
	}
}
