package cuda

import (
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/plan"
)

// TestJoinedCounts: pricing is told of launches that together stand for every node once, with fewer launches than nodes.
func TestJoinedCounts(t *testing.T) {
	d := gpu(t, 0)
	b := graph.NewBuilder("layers", testkit.Find, graph.BF16, graph.BF16)
	g, err := b.Finish(layers(b, "", graph.HalfPairs, 64, 64, 0))
	if err != nil {
		t.Fatal(err)
	}
	w, err := testkit.RandomWeights(g, 7)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(g, d, w, backend.Limits{Tokens: 16, Seqs: 1, Logits: 1, Pages: 4, PageSize: 16, SeqPages: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	counts, err := p.Joined()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if sum != len(p.Graph.Nodes) || len(counts) >= sum {
		t.Errorf("launches of %v nodes, of a graph of %d", counts, len(p.Graph.Nodes))
	}
}
