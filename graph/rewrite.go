package graph

// Rewriter copies a graph node by node, so that a pass can put other nodes in place of some. Passes speak of the old
// graph's values; the Rewriter knows what stands for them in the new one.
type Rewriter struct {
	b  *Builder
	by map[*Value]*Value
}

// Rewrite makes a new graph: visit is called for every node in order and either returns false, which keeps the node,
// or has emitted (or left out) what it wants instead. Weights and caches are shared with the old graph, which stays
// as it is; weights that nothing uses any more are dropped.
func Rewrite(g *Graph, visit func(r *Rewriter, n *Node) bool) (*Graph, error) {
	r := &Rewriter{b: NewBuilder(g.Name, nil, F32, F32), by: map[*Value]*Value{}}
	r.b.g.Caches = g.Caches
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v.Cache != nil && v.From == nil && r.by[v] == nil {
				r.by[v] = r.b.value(Value{Cache: v.Cache}, v.Name)
			}
		}
		if !visit(r, n) {
			r.Emit(n.Out, n.Op, n.In, n.Weights, n.At)
		}
	}
	used := map[*Weight]bool{}
	for _, n := range r.b.g.Nodes {
		for _, w := range n.Weights {
			used[w] = true
		}
	}
	for _, w := range g.Weights {
		if used[w] {
			r.b.g.Weights = append(r.b.g.Weights, w)
		}
	}
	return r.b.Finish(r.by[g.Output])
}

// Emit adds a node whose outputs stand for the old values outs, reading what stands for the old values in.
func (r *Rewriter) Emit(outs []*Value, op Op, in []*Value, weights []*Weight, at string) {
	mapped := make([]*Value, len(in))
	for i, v := range in {
		mapped[i] = r.by[v]
		if mapped[i] == nil {
			r.b.fail("%s reads %s, which the pass has dropped", op.Name(), v.Name)
			return
		}
	}
	made := r.b.emit(at, outs[0].Name, op, mapped, weights)
	for i, v := range outs {
		if made[i].From != nil {
			made[i].Name = v.Name
		}
		r.by[v] = made[i]
	}
}

// Unfuse puts the simpler ops that a node stands for in its place; false when the node is no fusion.
func (r *Rewriter) Unfuse(n *Node) bool {
	in := make([]*Value, len(n.In))
	for i, v := range n.In {
		in[i] = r.by[v]
	}
	outs := n.Op.Unfused(r.b, n, in)
	if outs == nil {
		return false
	}
	for i, v := range n.Out {
		r.by[v] = outs[i]
	}
	return true
}
