package pass

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// findDeferredNorms finds norms that all their readers, packed products, compute themselves in steps of few rows. A norm that is behind
// a sum is left out by the product, or the block of experts, whose result the sum adds.
func findDeferredNorms(m *matcher) (found []match) {
	reads := map[*graph.Node]bool{} // a deferred norm
	for _, n := range m.g.Nodes {
		d, ok := m.deferrable(n, reads)
		if !ok {
			continue
		}
		readers := m.readers[d.norm]
		for _, r := range readers {
			if !products(r) {
				d.rows = 0
				break
			}
			d.rows = min(d.rows, m.device.NormRows(r))
		}
		if d.rows < 1 || len(readers) == 0 || d.norm == m.g.Output || slices.Contains(m.g.Kept, d.norm) {
			continue
		}
		for _, r := range readers {
			reads[r] = true
			op, in, weights := graph.WithPrologue(r, d.x, d.weight, graph.Prologue{Rows: d.rows, Eps: d.eps})
			found = append(found, match{[]*graph.Node{r}, &graph.Node{Op: op, In: in, Weights: weights, Out: r.Out, At: r.At}})
		}
		found = append(found, d.match())
	}
	return found
}

// products reports whether a node is one of those that may have a Prologue.
func products(n *graph.Node) bool {
	switch o := n.Op.(type) {
	case graph.Linear:
		return true
	case *graph.Fused:
		return o.Kind == graph.LinearGroup || o.Kind == graph.GatedLinear
	}
	return false
}

// deferral is a norm that need not be made in steps of few rows, and the nodes that make it.
type deferral struct {
	nodes   []*graph.Node
	norm, x *graph.Value // x is what is normalised
	weight  *graph.Weight
	eps     float64
	rows    int
	by      *graph.Node // that is to make it; nil: a DeferredNorm
}

// deferrable is the norm that a node makes, if the nodes that make it can do without.
func (m *matcher) deferrable(n *graph.Node, reads map[*graph.Node]bool) (deferral, bool) {
	switch o := n.Op.(type) {
	case graph.RMSNorm:
		return deferral{[]*graph.Node{n}, n.Out[0], n.In[0], n.Weights[0], o.Eps, math.MaxInt, nil}, o.WholeRows()
	case graph.AddNorm:
		product := m.product(n, reads)
		if product == nil {
			return deferral{}, false
		}
		nodes := []*graph.Node{product, n}
		op, in, weights := graph.NewFused(graph.LinearAddNorm, nodes, n.Out)
		by := &graph.Node{Op: op, In: in, Weights: weights, Out: n.Out, At: product.At}
		return deferral{nodes, n.Out[1], n.Out[0], n.Weights[0], o.Eps, m.device.NormRows(by), by}, m.convex(nodes)
	case *graph.Fused:
		if o.Kind != graph.MoEAddNorm {
			return deferral{}, false
		}
		eps := o.Parts[1].Op.(graph.AddNorm).Eps
		return deferral{[]*graph.Node{n}, n.Out[1], n.Out[0], n.Weights[len(n.Weights)-1], eps, m.device.NormRows(n), n}, true
	}
	return deferral{}, false
}

// product is the last Linear whose result an AddNorm adds, if nothing else reads that and it does not compute a norm itself.
func (m *matcher) product(sum *graph.Node, reads map[*graph.Node]bool) (last *graph.Node) {
	for _, v := range sum.In {
		n := v.From
		if n == nil {
			continue
		}
		if _, ok := n.Op.(graph.Linear); ok && m.only(v) == sum && !reads[n] && (last == nil || m.place[n] > m.place[last]) {
			last = n
		}
	}
	return last
}

// match is the nodes with the one that leaves the norm out.
func (d *deferral) match() match {
	made := d.nodes[len(d.nodes)-1]
	by := &graph.Node{Op: graph.DeferredNorm{Eps: d.eps, Rows: d.rows}, In: made.In, Weights: made.Weights, Out: made.Out, At: made.At}
	if d.by != nil {
		op := *d.by.Op.(*graph.Fused)
		op.Deferred = d.rows
		by = &graph.Node{Op: &op, In: d.by.In, Weights: d.by.Weights, Out: d.by.Out, At: d.by.At}
	}
	return match{d.nodes, by}
}
