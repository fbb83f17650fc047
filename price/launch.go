package price

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// operation is a part of a node: it is priced by itself, without a launch of its own unless it is the first.
type operation struct {
	graph.WorkPart
	rides   bool // the launch has begun with an operation before it, or there may be none
	numbers int  // of the weights of all products of the launch
}

// operationsOf is what a node computes.
func operationsOf(n *graph.Node) []operation {
	parts := graph.WorkParts(n)
	all := make([]operation, len(parts))
	numbers := 0
	for _, p := range parts {
		if classOf(p.Node) == Linear {
			numbers += p.Node.Weights[0].Out.Len() * p.Node.Weights[0].In.Len()
		}
	}
	for i, p := range parts {
		all[i] = operation{p, i > 0 || n.Out[0].Deferred > 0, numbers}
	}
	return all
}

// key is all of an operation that its cost depends on.
func (o *operation) key() string {
	s := fmt.Sprint(keyOf(o.Node), o.rides, o.numbers)
	for _, list := range [][]*graph.Value{o.Unread, o.Unwritten} {
		s += ";"
		for _, v := range list {
			s += fmt.Sprint(v.Rows, v.RowBytes(), " ")
		}
	}
	return s
}
