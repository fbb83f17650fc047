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

// TestExperts: models whose rows go to experts on other devices compute what upstream does. Each model does among parts of sequences and among replicas, in one of
// the layouts that divide it, replicas by turns with experts placed by load; with -layouts in all.
func TestExperts(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/config.json")
	if err != nil {
		t.Fatal(err)
	}
	if more, err := filepath.Glob(filepath.Join(shared, "reference/architectures/*/config.json")); err == nil && !testing.Short() {
		dirs = append(dirs, more...)
	}
	kinds := [][]pass.Layout{
		{
			{Tensor: 1, Pipeline: 1, Data: 1, Expert: 2, Sequence: 2, Method: pass.Ring}, {Tensor: 1, Pipeline: 1, Data: 1, Expert: 4, Sequence: 4, Method: pass.Ulysses},
			{Tensor: 2, Pipeline: 1, Data: 1, Expert: 4, Sequence: 2, Method: pass.Ring},
		},
		{{Tensor: 1, Pipeline: 1, Data: 2, Expert: 2}, {Tensor: 2, Pipeline: 1, Data: 2, Expert: 4}, {Tensor: 1, Pipeline: 2, Data: 4, Expert: 4}},
	}
	ran := map[string]int{}
	turn := 0
	for _, file := range dirs {
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
		turn++
		for k, layouts := range kinds {
			divides := slices.DeleteFunc(slices.Clone(layouts), func(l pass.Layout) bool { return l.Check(g) != nil })
			if n := len(divides); !*everyLayout && n > 0 {
				divides = divides[turn%n:][:1]
			}
			for j, l := range divides {
				device := []string{"cpu", "ref"}[(turn/6+j)%2]
				if *everyLayout || k == 0 || turn%2 == 0 {
					ran[l.String()]++
					t.Run(filepath.Base(dir)+"/"+l.String()+"/"+device, func(t *testing.T) { compareLayout(t, dir, device, l) })
				}
				if k == 1 && (*everyLayout || turn%2 == 1) {
					ran[l.String()+" placed"]++
					t.Run(filepath.Base(dir)+"/"+l.String()+"/"+device+"/placed", func(t *testing.T) { comparePlaced(t, dir, device, l, hot(g)) })
				}
			}
		}
	}
	for _, l := range slices.Concat(kinds...) {
		plain, placed := ran[l.String()], ran[l.String()+" placed"]
		if plain+placed == 0 || !testing.Short() && (plain == 0 || l.Data > 1 && placed == 0) { // -short has too few models for both
			t.Errorf("%d models ran in the layout %s, and %d with experts placed: %v", plain, l, placed, ran)
		}
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
