package capacity

import "github.com/ridge-llm/ridge/graph"

// Exchange is a value whose rows pass so many experts each.
type Exchange struct {
	Value *graph.Value
	Top   int
}

// Rank is what one device of a layout does in a step. All devices of a pipeline stage have equal parts.
type Rank struct {
	Graph *graph.Graph
	// Reduced are the values of which every device of a tensor-parallel group has a summand: outputs of row-parallel
	// products and of the cut embedding. Gathered are those of which each has some columns and all are wanted.
	Reduced, Gathered []*graph.Value
	// Exchanged are the values whose rows pass experts on devices of other copies.
	Exchanged []Exchange
	// Received are the values that come from earlier stages.
	Received []*graph.Value
	Last     bool // it makes the logits
}

// Rank is the part of g that a device of pipeline stage s has.
func (l Layout) Rank(g *graph.Graph, s int) *Rank {
	c := cutter{
		Layout: l, Rank: &Rank{Graph: &graph.Graph{Name: g.Name}},
		weights: map[*graph.Weight]*graph.Weight{}, values: map[*graph.Value]*graph.Value{}, caches: map[*graph.Cache]*graph.Cache{},
	}
	at := 0
	for _, n := range g.Nodes {
		if n.Layer != graph.NoLayer {
			at = l.stage(n.Layer, g.Layers())
		} else if out := n.Out[0]; out.Cache == nil && out.Rows == graph.Logits {
			at = l.Pipeline - 1 // the head
		}
		if at == s {
			c.add(n)
		}
	}
	c.Last = s == l.Pipeline-1
	end := c.Graph.Nodes[len(c.Graph.Nodes)-1]
	c.Graph.Output = end.Out[0] // what the next stage gets, or the logits
	return c.Rank
}

// cutter copies nodes with their axes cut.
type cutter struct {
	Layout
	*Rank
	weights map[*graph.Weight]*graph.Weight
	values  map[*graph.Value]*graph.Value
	caches  map[*graph.Cache]*graph.Cache
}

func (c *cutter) add(n *graph.Node) {
	part := &graph.Node{Op: n.Op, Layer: n.Layer, At: n.At}
	pieces := c.Tensor
	moe, experts := n.Op.(graph.MoE)
	if experts {
		moe.Held, moe.Sources = moe.Experts/c.expert(), c.across()
		part.Op, pieces = moe, c.pieces(true)
	}
	for _, v := range n.In {
		if c.values[v] == nil && v.From != nil {
			c.Received = append(c.Received, c.value(v))
		}
		part.In = append(part.In, c.value(v))
	}
	for _, w := range n.Weights {
		part.Weights = append(part.Weights, c.weight(w, pieces))
	}
	for _, v := range n.Out {
		out := c.value(v)
		out.From = part
		part.Out = append(part.Out, out)
	}
	c.Graph.Nodes = append(c.Graph.Nodes, part)
	if experts && c.across() > 1 {
		c.Exchanged = append(c.Exchanged, Exchange{part.Out[0], moe.Top})
	}
	if c.Tensor == 1 || len(n.Weights) == 0 {
		return
	}
	switch w := n.Weights[0]; {
	case experts:
		c.Reduced = append(c.Reduced, part.Out[0])
	case n.Out[0].Rows == graph.Logits && cut(w.Out):
		c.Gathered = append(c.Gathered, part.Out[0])
	case cut(w.In) && !cut(n.Out[0].Axis), w.Out.Name == "vocab" && !cut(n.Out[0].Axis):
		c.Reduced = append(c.Reduced, part.Out[0])
	}
}

func (c *cutter) value(v *graph.Value) *graph.Value {
	if part := c.values[v]; part != nil {
		return part
	}
	part := *v
	part.From, part.Axis = nil, share(v.Axis, c.Tensor)
	if v.Cache != nil {
		part.Cache = c.cache(v.Cache)
	}
	c.values[v] = &part
	return &part
}

func (c *cutter) weight(w *graph.Weight, pieces int) *graph.Weight {
	if part := c.weights[w]; part != nil {
		return part
	}
	part := *w
	part.Out, part.In = share(w.Out, pieces), share(w.In, pieces)
	if w.Stack != (graph.Axis{}) {
		part.Stack.Count /= c.expert()
	}
	c.weights[w] = &part
	c.Graph.Weights = append(c.Graph.Weights, &part)
	return &part
}

func (c *cutter) cache(k *graph.Cache) *graph.Cache {
	if part := c.caches[k]; part != nil {
		return part
	}
	part := *k
	part.K, part.V = share(k.K, c.Tensor), share(k.V, c.Tensor)
	c.caches[k] = &part
	c.Graph.Caches = append(c.Graph.Caches, &part)
	return &part
}
