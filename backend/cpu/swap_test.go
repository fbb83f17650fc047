package cpu

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestSwap: a cache that was away in host memory between steps holds what it held.
func TestSwap(t *testing.T) {
	if testing.Short() {
		t.Skip("pages are moved by plain Go, which need not be emulated")
	}
	for i, c := range testkit.Cases() {
		if c.Op != "Attention" {
			continue
		}
		g, w, lim, batches, err := c.Build(graph.F32, graph.F16, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		dev := devices()[i%len(devices())]
		want, err := testkit.Outputs(g, dev, w, lim, batches)
		if err != nil {
			t.Fatal(err)
		}
		got, err := testkit.SwappedOutputs(g, dev, w, lim, batches)
		if err != nil {
			t.Fatal(err)
		}
		for step := range want {
			if !slices.Equal(got[step], want[step]) {
				t.Errorf("%s: step %d differs after swapping", c.Name, step)
			}
		}
	}
}
