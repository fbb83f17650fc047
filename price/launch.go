package price

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// place is a node's place in a launch that computes several.
type place struct {
	rides   bool // the launch has begun with a node before it
	numbers int  // of the weights of all products of the launch
}

// placesOf is the place of each node of a graph whose launches stand for so many nodes each.
func placesOf(g *graph.Graph, joined []int) ([]place, error) {
	places := make([]place, len(g.Nodes))
	at := 0
	for _, n := range joined {
		if n < 1 || at+n > len(places) {
			return nil, fmt.Errorf("price: launch %v of graph %s stands for %d nodes after the first %d of %d", joined, g.Name, n, at, len(places))
		}
		numbers := 0
		for _, node := range g.Nodes[at : at+n] {
			if classOf(node) == Linear {
				numbers += node.Weights[0].Out.Len() * node.Weights[0].In.Len()
			}
		}
		for i := range n {
			places[at+i] = place{rides: i > 0, numbers: numbers}
		}
		at += n
	}
	if joined != nil && at != len(places) {
		return nil, fmt.Errorf("price: the launches of graph %s stand for %d of its %d nodes", g.Name, at, len(places))
	}
	return places, nil
}
