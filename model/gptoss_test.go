package model

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// TestStoredExperts: gpt-oss is published with its experts in MXFP4 and the rest in BF16. Without weights its graph says so.
func TestStoredExperts(t *testing.T) {
	m, err := Shape("gpt-oss-20b")
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph(Options{Act: graph.BF16, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[quant.Format]int{}
	for _, w := range g.Weights {
		want := quant.BF16
		switch {
		case strings.HasSuffix(w.Tensor, "_exps.weight"):
			want = quant.MXFP4
		case w.Out.Len() == 1 || strings.HasSuffix(w.Tensor, ".bias"):
			continue
		}
		if seen[w.Format]++; w.Format != want {
			t.Errorf("%s is %v; %v is right", w.Tensor, w.Format, want)
		}
	}
	if seen[quant.MXFP4] == 0 || seen[quant.BF16] == 0 {
		t.Errorf("weights by format: %v", seen)
	}
	config := string(shapes()["gpt-oss-20b"])
	if _, err := FromConfig("config.json", []byte(strings.Replace(config, `"mxfp4"`, `"aqlm"`, 1))); err == nil || !strings.Contains(err.Error(), `quantised by "aqlm", which is not known`) {
		t.Errorf("in a format that is not known: %v", err)
	}
}
