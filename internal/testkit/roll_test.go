package testkit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
)

// TestRoll: tables that give up what is out of the window change no result, and use pages again.
func TestRoll(t *testing.T) {
	for _, window := range []int{1, 5, 16, 17, 40} {
		c := Case{Name: "roll", Op: "Attention", Steps: Steps{{70, 3}, {1, 60}, {1, 1}, {33, 1}, {1, 20}, {1, 1}}}
		c.Graph = func(b *graph.Builder) *graph.Value {
			kv := axis("kv", 2, 8)
			cache := b.KVWrite(b.Cache(0, kv, kv, window), feed(b, "k", kv), feed(b, "v", kv))
			return b.Attention("y", feed(b, "q", axis("heads", 4, 8)), cache, graph.Attention{Scale: 0.2})
		}
		g, w, lim, batches, err := c.Build(graph.F32, graph.F32, 3)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Outputs(g, ref.New(), w, lim, batches)
		if err != nil {
			t.Fatal(err)
		}
		first := slices.Clone(batches[len(batches)-1].Table(0).Pages)
		Roll(batches, lim, window)
		written := map[string]bool{}
		again := false
		for _, b := range batches {
			for _, slot := range b.Table(0).Slots {
				again = again || written[fmt.Sprint(slot)]
				written[fmt.Sprint(slot)] = true
			}
		}
		got, err := Outputs(g, ref.New(), w, lim, batches)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("window %d: step %d differs", window, i)
			}
		}
		if !again || slices.Equal(first, batches[len(batches)-1].Table(0).Pages) {
			t.Errorf("window %d: no page was used again", window)
		}
	}
}
