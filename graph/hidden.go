package graph

import "fmt"

// Hidden says that x, normalised and before the output matrix, is what an embedding of the text is made of. It is kept
// until the end of the step, so that it can be read beside the logits or without them.
func (b *Builder) Hidden(x *Value) { b.g.Hidden = x }

// Keep adds a value to those that are kept for other programs: see Graph.Kept.
func (b *Builder) Keep(x *Value) { b.g.Kept = append(b.g.Kept, x) }

// HiddenOfAll is the graph with the hidden states of every token, [tokens, hidden] in place of [logits, hidden]: what
// lies between SelectRows and them moves before SelectRows. The logits are the same, since rows are computed by themselves; the
// norm of the rows not selected is the price. A mean over a text's tokens needs it.
func HiddenOfAll(g *Graph) (*Graph, error) {
	return Rewrite(g, func(r *Rewriter, n *Node) bool {
		_, selects := n.Op.(SelectRows)
		switch {
		case selects:
			r.by[n.Out[0]] = r.Of(n.In)[0]
		case g.Hidden != nil && n == g.Hidden.From:
			all := r.Add(n.At, n.Out[0].Name, n.Op, r.Of(n.In), n.Weights)
			r.b.g.Hidden = all[0]
			r.by[n.Out[0]] = r.Add(n.At, "selected", SelectRows{}, all, nil)[0]
		default:
			return false
		}
		return true
	})
}

// KeepSelected is the graph with Hidden kept for other programs: a row for each of the rows whose logits are wanted.
func KeepSelected(g *Graph) (*Graph, error) {
	if g.Hidden == nil {
		return nil, fmt.Errorf("graph %s: it has no hidden states that could be kept", g.Name)
	}
	kept := *g
	kept.Kept = append(kept.Kept[:len(kept.Kept):len(kept.Kept)], g.Hidden)
	return &kept, kept.Verify()
}

// KeepFinal is the graph with the hidden states of all tokens kept for other programs, normalised: what MTP layers and EAGLE go on from. What
// makes the logits stays as it is, to the bit, and so the norm of selected rows is computed twice.
func KeepFinal(g *Graph) (*Graph, error) {
	if g.Hidden == nil || g.Hidden.Rows == Tokens {
		return KeepSelected(g)
	}
	norm := g.Hidden.From
	selects := norm.In[0].From
	if _, ok := selects.Op.(SelectRows); !ok {
		return nil, fmt.Errorf("graph %s: its hidden states %s are made of %s, and rows that are selected are expected", g.Name, g.Hidden.Name, norm.In[0].Name)
	}
	return Rewrite(g, func(r *Rewriter, n *Node) bool {
		if n == norm {
			all := r.Add(n.At, n.Out[0].Name+".all", n.Op, r.Of(selects.In), n.Weights)
			r.kept = append(r.kept, all[0])
		}
		return false
	})
}

// KeepLayers is the graph with the inputs of layers kept for other programs, [tokens, hidden] each, in the order given: what EAGLE-3 goes on from.
// The input of a layer is the one matrix that an earlier layer, or the embedding, has made and that this one or a later one reads.
func KeepLayers(g *Graph, layers ...int) (*Graph, error) {
	kept := *g
	kept.Kept = kept.Kept[:len(kept.Kept):len(kept.Kept)]
	for _, layer := range layers {
		v, err := inputOf(g, layer)
		if err != nil {
			return nil, err
		}
		kept.Kept = append(kept.Kept, v)
	}
	return &kept, kept.Verify()
}

// inputOf is the one matrix of hidden states that reaches a layer from before it.
func inputOf(g *Graph, layer int) (*Value, error) {
	first := 0
	for first < len(g.Nodes) && g.Nodes[first].Layer != layer {
		first++
	}
	if layer < 0 || first == len(g.Nodes) {
		return nil, fmt.Errorf("graph %s: it has %d layers, and hidden states before layer %d are wanted", g.Name, g.Layers(), layer)
	}
	made := map[*Value]bool{}
	for _, n := range g.Nodes[:first] {
		for _, v := range n.Out {
			made[v] = v.Cache == nil && v.Rows == Tokens && g.Hidden != nil && v.Axis == g.Hidden.Axis
		}
	}
	var found *Value
	for _, n := range g.Nodes[first:] {
		for _, v := range n.In {
			if made[v] && found != nil && found != v {
				return nil, fmt.Errorf("graph %s: layer %d reads %s and %s of the layers before, and hidden states are one value", g.Name, layer, found.Name, v.Name)
			}
			if made[v] {
				found = v
			}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("graph %s: layer %d reads no hidden states of the layers before", g.Name, layer)
	}
	return found, nil
}
