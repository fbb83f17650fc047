package pass_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestInt4Caches: a cache in int4 and its residual cache are divided alike, in stages too, and refused where groups of tokens would be divided, or where there are none.
func TestInt4Caches(t *testing.T) {
	open := func(name string) (*graph.Graph, error) {
		t.Helper()
		b, err := modeldir.Open(filepath.Join("../internal/check/testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.I4})
	}
	g, err := open("llama-default")
	if err != nil {
		t.Fatal(err)
	}
	part, err := pass.Partition(g, pass.Options{Layout: pass.Layout{Tensor: 2, Pipeline: 2, Data: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(part.Caches); i += 2 {
		c, residual := part.Caches[i], part.Caches[i+1]
		if !residual.Residual || residual.K != c.K || residual.V != c.V || residual.Layer != c.Layer || 2*c.K.Count != g.Caches[0].K.Count {
			t.Errorf("%+v, %+v", c, residual)
		}
	}
	if len(part.Caches) != len(g.Caches)/2 {
		t.Errorf("%d of %d caches in the first of two stages", len(part.Caches), len(g.Caches))
	}
	_, err = pass.Partition(g, pass.Options{Layout: pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ring}})
	if err == nil || !strings.Contains(err.Error(), "would divide its groups of tokens; take --kv-type int8") {
		t.Error(err)
	}
	for name, want := range map[string]string{"kimi-linear": "latent vectors, of which there is no int4", "bert": "bidirectional attention"} {
		dirs, _ := filepath.Glob("../internal/check/testdata/" + name + "*")
		if len(dirs) == 0 {
			t.Errorf("there is no small model %s", name)
			continue
		}
		if _, err := open(filepath.Base(dirs[0])); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
