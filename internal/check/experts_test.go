package check

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestExperts: models whose rows go to experts on other devices compute what upstream does.
func TestExperts(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/config.json")
	if err != nil {
		t.Fatal(err)
	}
	if more, err := filepath.Glob(filepath.Join(shared, "reference/architectures/*/config.json")); err == nil && !testing.Short() {
		dirs = append(dirs, more...)
	}
	ran := map[string]int{}
	for i, file := range dirs {
		dir := filepath.Dir(file)
		b, err := modeldir.Open(dir)
		if err != nil {
			continue
		}
		g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
		b.Close()
		if err != nil || !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { _, ok := n.Op.(graph.MoE); return ok }) {
			continue
		}
		for j, l := range []pass.Layout{
			{Tensor: 1, Pipeline: 1, Data: 1, Expert: 2, Sequence: 2, Method: pass.Ring}, {Tensor: 1, Pipeline: 1, Data: 1, Expert: 4, Sequence: 4, Method: pass.Ulysses},
			{Tensor: 2, Pipeline: 1, Data: 1, Expert: 4, Sequence: 2, Method: pass.Ring},
			{Tensor: 1, Pipeline: 1, Data: 2, Expert: 2}, {Tensor: 2, Pipeline: 1, Data: 2, Expert: 4}, {Tensor: 1, Pipeline: 2, Data: 4, Expert: 4},
		} {
			if l.Check(g) != nil || testing.Short() && (i+j)%2 > 0 {
				continue
			}
			device := []string{"cpu", "ref"}[(i+j)/2%2]
			ran[l.String()]++
			t.Run(filepath.Base(dir)+"/"+l.String()+"/"+device, func(t *testing.T) { compareLayout(t, dir, device, l) })
			if j >= 3 { // of replicas
				t.Run(filepath.Base(dir)+"/"+l.String()+"/"+device+"/placed", func(t *testing.T) { comparePlaced(t, dir, device, l, hot(g)) })
			}
		}
	}
	if len(ran) < 6 {
		t.Errorf("layouts that models have run in: %v", ran)
	}
	t.Logf("models that ran: %v", ran)
}

// hot is loads of a graph's experts, of which some are hot, and so on several devices.
func hot(g *graph.Graph) pass.ExpertLoads {
	l := pass.ExpertLoads{Counts: map[string][]float32{}, Extra: 1}
	for i, n := range g.Nodes {
		if o, ok := n.Op.(graph.MoE); ok {
			counts := make([]float32, o.Experts)
			for e := range counts {
				counts[e] = float32((e*7 + i*5) % 11 * (e % 3))
			}
			l.Counts[n.Weights[graph.ExpertGate].Tensor] = counts
		}
	}
	return l
}
