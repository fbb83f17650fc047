package compile

import (
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// divider is a device that exchanges divided rows by itself.
type divider struct {
	backend.Device
	backend.Exchanger
}

func (divider) RunDivided([]backend.Launch, []bool, *backend.Batch, *backend.Batch, []int32) error {
	return nil
}

// TestHostRows: the host moves all that devices exchange which divide rows where there is something that they do not exchange by themselves.
func TestHostRows(t *testing.T) {
	for _, c := range []struct {
		op   graph.Op
		host bool
	}{{graph.GatherRows{}, false}, {graph.ToHeads{}, false}, {graph.Dispatch{}, true}, {graph.Combine{}, true}, {graph.RingAttention{}, true}} {
		var r Ranks
		if r.hostRows(&graph.Graph{Nodes: []*graph.Node{{Op: graph.OwnRows{}}, {Op: c.op}}}, divider{}); r.hosted[pass.OfSequence] != c.host {
			t.Errorf("of a graph with %s the host moves rows: %t", c.op.Name(), !c.host)
		}
	}
}
