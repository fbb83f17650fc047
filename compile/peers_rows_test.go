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

func (divider) RunDivided([]backend.Launch, []bool, *backend.Batch, *backend.Batch, backend.Division) error {
	return nil
}

// mover is a group whose devices move everything by themselves but rows of one op.
type mover struct {
	backend.Peers
	but graph.Op
}

func (m mover) Moves(n *graph.Node) bool { return n.Op != m.but }

// TestHostRows: the host moves all that devices exchange which divide rows where there is something that they do not exchange by themselves.
func TestHostRows(t *testing.T) {
	for _, c := range []struct {
		op, but graph.Op
		host    bool
	}{{graph.GatherRows{}, nil, false}, {graph.ToHeads{}, nil, false}, {graph.Dispatch{}, nil, false}, {graph.Combine{}, nil, false}, {graph.Dispatch{}, graph.OwnRows{}, true}, {graph.RingAttention{}, nil, true}} {
		r := Ranks{sequence: mover{but: c.but}}
		if r.hostRows(&graph.Graph{Nodes: []*graph.Node{{Op: graph.OwnRows{}}, {Op: c.op}}}, divider{}); r.hosted[pass.OfSequence] != c.host {
			t.Errorf("of a graph with %s, and devices that do not move %v, the host moves rows: %t", c.op.Name(), c.but, !c.host)
		}
	}
	var none Ranks
	if none.hostRows(&graph.Graph{Nodes: []*graph.Node{{Op: graph.OwnRows{}}}}, divider{}); !none.hosted[pass.OfSequence] {
		t.Error("devices that are of no group move rows")
	}
}
