package graph

import "github.com/ridge-llm/ridge/quant"

// Rewriter copies a graph node by node, so that a pass can put other nodes in place of some. Passes speak of the old
// graph's values; the Rewriter knows what stands for them in the new one.
type Rewriter struct {
	b           *Builder
	by          map[*Value]*Value
	requantised map[*Weight]*Weight // into other formats
}

// Rewrite makes a new graph: visit is called for every node in order and either returns false, which keeps the node,
// or has emitted (or left out) what it wants instead. Weights and caches are shared with the old graph, which stays
// as it is; weights that nothing uses any more are dropped.
func Rewrite(g *Graph, visit func(r *Rewriter, n *Node) bool) (*Graph, error) {
	r := &Rewriter{b: NewBuilder(g.Name, nil, F32, F32), by: map[*Value]*Value{}, requantised: map[*Weight]*Weight{}}
	r.b.g.Caches = g.Caches
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v.Cache != nil && v.From == nil && r.by[v] == nil {
				r.by[v] = r.b.value(Value{Cache: v.Cache}, v.Name)
			}
		}
		r.b.layer = n.Layer
		if !visit(r, n) {
			r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, n.Op, r.Of(n.In), n.Weights))
		}
	}
	used := map[*Weight]bool{}
	for _, n := range r.b.g.Nodes {
		for _, w := range n.Weights {
			used[w] = true
		}
	}
	for _, w := range g.Weights {
		for _, w := range []*Weight{w, r.requantised[w]} {
			if used[w] {
				r.b.g.Weights = append(r.b.g.Weights, w)
			}
		}
	}
	if r.b.g.Hidden == nil { // the visitor has not chosen another
		r.b.g.Hidden = r.by[g.Hidden]
	}
	return r.b.Finish(r.by[g.Output])
}

// Of is what stands for values of the old graph.
func (r *Rewriter) Of(old []*Value) []*Value {
	now := make([]*Value, len(old))
	for i, v := range old {
		if now[i] = r.by[v]; now[i] == nil {
			r.b.fail("%s is read after the pass has dropped it", v.Name)
			now[i] = v
		}
	}
	return now
}

// Add adds a node to the new graph, reading values of the new graph.
func (r *Rewriter) Add(at, name string, op Op, in []*Value, weights []*Weight) []*Value {
	return r.b.emit(at, name, op, in, weights)
}

// Replace says that values of the new graph stand for those of the old one from here on, and take over their names.
func (r *Rewriter) Replace(old, now []*Value) {
	for i, v := range old {
		if now[i].From != nil {
			now[i].Name = v.Name
		}
		r.by[v] = now[i]
	}
}

// Requantised is a weight in another format, one and the same however often it is asked for. The device quantises the numbers of the
// file on load.
func (r *Rewriter) Requantised(w *Weight, f quant.Format) *Weight {
	if r.requantised[w] == nil {
		now := *w
		now.Format = f
		r.requantised[w] = &now
	}
	return r.requantised[w]
}

// Unfuse puts the simpler ops that a node stands for in its place; false when the node is no fusion.
func (r *Rewriter) Unfuse(n *Node) bool {
	now := n.Op.Unfused(r.b, n, r.Of(n.In))
	if now == nil {
		return false
	}
	r.Replace(n.Out, now)
	return true
}
