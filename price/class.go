package price

import "github.com/ridge-llm/ridge/graph"

// Class is a kind of node whose cost the same coefficients describe.
type Class uint8

// The classes.
const (
	Linear     Class = iota // products with weights
	Attention               // scores and sums over the cache
	Pointwise               // norms, rotations, gates, quantising, cache writes: rows by themselves
	Lookup                  // rows fetched: embeddings, selected rows
	Collective              // communication with other devices
)

func (c Class) String() string {
	return [...]string{"linear", "attention", "pointwise", "lookup", "collective"}[c]
}

// classOf is a node's class.
func classOf(n *graph.Node) Class {
	switch n.Op.(type) {
	case graph.Linear, graph.MoE, graph.AdaptedMoE:
		return Linear
	case graph.Attention, graph.PartialAttention, graph.RingAttention:
		return Attention
	case graph.Embed, graph.SelectRows:
		return Lookup
	case graph.AllReduce, graph.AllGather, graph.Dispatch, graph.Combine, graph.Send, graph.Recv, graph.CacheShares,
		graph.GatherRows, graph.GatherSelected, graph.ToHeads, graph.FromHeads:
		return Collective
	}
	return Pointwise
}

// Bound is what a node, or a part of a step, waits for.
type Bound uint8

// The bounds.
const (
	Compute       Bound = iota // arithmetic at the device's rate
	Memory                     // traffic of a memory level
	Launch                     // starting, and waiting for other threads
	Communication              // with other devices
)

func (b Bound) String() string {
	return [...]string{"compute", "memory", "launch", "communication"}[b]
}
