package pass

import "github.com/ridge-llm/ridge/graph"

// Fuse joins neighbouring ops that are faster as one. The table is closed: what is fused is decided here, once, and
// never at run time.
//
//	Add, RMSNorm of the sum → AddNorm
func Fuse(g *graph.Graph, _ Options) (*graph.Graph, error) {
	norms := map[*graph.Value]*graph.Node{} // of a sum, its first whole-row norm
	for _, n := range g.Nodes {
		if o, ok := n.Op.(graph.RMSNorm); ok && !o.PerGroup && norms[n.In[0]] == nil {
			norms[n.In[0]] = n
		}
	}
	done := map[*graph.Node]bool{}
	return graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		if done[n] {
			return true
		}
		if _, ok := n.Op.(graph.Add); !ok {
			return false
		}
		norm := norms[n.Out[0]]
		if norm == nil {
			return false
		}
		done[norm] = true
		fused := graph.AddNorm{Eps: norm.Op.(graph.RMSNorm).Eps}
		r.Replace([]*graph.Value{n.Out[0], norm.Out[0]}, r.Add(n.At, n.Out[0].Name, fused, r.Of(n.In), norm.Weights))
		return true
	})
}
