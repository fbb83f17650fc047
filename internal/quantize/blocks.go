package quantize

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// block is what a graph computes between two borders: what comes before the first layer, a layer, or what makes the logits.
type block struct {
	layer   int
	in, out []*graph.Value // what crosses its borders
	inputs  []input        // in the order of the graph

	mixtures []mixture // of experts, whose matrices are rounded behind the others
}

// input is a value and the linear layers that read it.
type input struct {
	value *graph.Value
	nodes []*graph.Node
}

// everywhere tells values that each block computes for itself: those made of nothing, such as angles of rotations.
func everywhere(n *graph.Node) bool { return len(n.In) == 0 && len(n.Weights) == 0 }

// blocksOf cuts a graph at the borders of its layers. The first block is what comes before the layers; what comes behind them is the last with head, of
// which the matrix that makes the logits is quantised, and in none without.
func blocksOf(g *graph.Graph, head bool) ([]block, error) {
	layers := g.Layers()
	if layers == 0 {
		return nil, fmt.Errorf("quantize: graph %s has no layers", g.Name)
	}
	all := make([]block, layers+1)
	if head {
		all = append(all, block{})
	}
	at := map[*graph.Node]int{}
	last := 0
	for _, n := range g.Nodes {
		switch {
		case n.Layer != graph.NoLayer:
			last = n.Layer + 1
		case last > 0 || n.Out[0].Rows == graph.Logits:
			last = layers + 1
		}
		at[n] = last
	}
	for i := range all {
		all[i].layer = i - 1
	}
	until := map[*graph.Value]int{}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v.Cache != nil && v.From != nil && at[v.From] != at[n] {
				return nil, fmt.Errorf("quantize: layer %d reads %s, which layer %d writes; models whose layers share caches cannot be quantised layer by layer", n.Layer, v.Name, v.From.Layer)
			}
			until[v] = max(until[v], at[n])
		}
	}
	scores := scoresOf(g)
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v.Cache != nil || everywhere(n) {
				continue
			}
			for i := at[n]; i < min(until[v], layers+1); i++ {
				all[i].out = append(all[i].out, v)
				if i+1 < len(all) {
					all[i+1].in = append(all[i+1].in, v)
				}
			}
		}
		if n.Layer != graph.NoLayer && quantizable(n) && !scores[n.Out[0]] || head && isHead(n) {
			all[at[n]].add(n)
		}
	}
	return all, nil
}

// isHead reports whether a node makes the logits.
func isHead(n *graph.Node) bool {
	_, linear := n.Op.(graph.Linear)
	return linear && n.Layer == graph.NoLayer && n.In[0].Rows == graph.Logits && n.Weights[0].Out.Len() > 1
}

// scoresOf is the values that experts are chosen by: a router is small, and nobody reads it from few bits.
func scoresOf(g *graph.Graph) map[*graph.Value]bool {
	scores := map[*graph.Value]bool{}
	for _, n := range g.Nodes {
		switch n.Op.(type) {
		case graph.Route:
			scores[n.In[0]] = true
		case graph.MoE:
			scores[n.In[1]] = true
		}
	}
	return scores
}

// quantizable reports whether a node is a linear layer whose matrix methods apply to.
func quantizable(n *graph.Node) bool {
	if _, ok := n.Op.(graph.Linear); !ok || n.In[0].Rows == graph.Logits {
		return false
	}
	w := n.Weights[0]
	return w.Out.Len() > 1 && w.Slots == nil
}

// add adds a linear layer to those of its input.
func (b *block) add(n *graph.Node) {
	i := slices.IndexFunc(b.inputs, func(in input) bool { return in.value == n.In[0] })
	if i < 0 {
		i = len(b.inputs)
		b.inputs = append(b.inputs, input{value: n.In[0]})
	}
	b.inputs[i].nodes = append(b.inputs[i].nodes, n)
}
