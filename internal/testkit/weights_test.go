package testkit

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/graph"
)

// TestRandomWeights: each weight's tensor is in the format of the graph, also where adapters of it are weights too. Devices may multiply by what the file holds
// or by what the graph names, and where the two differ both are right.
func TestRandomWeights(t *testing.T) {
	for i, c := range Cases() {
		g, err := c.Built(graph.F32, graph.BF16)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(g.Weights, func(w *graph.Weight) bool { return w.Slots != nil }) {
			continue
		}
		tensors, err := RandomWeights(g, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range g.Weights {
			if x, ok := tensors[w.Tensor]; ok && w.Slots == nil && x.Format != w.Format {
				t.Errorf("%s: tensor %s is in %s, and the graph has it in %s", c.Name, w.Tensor, x.Format, w.Format)
			}
		}
	}
}
