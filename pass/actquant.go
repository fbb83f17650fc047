package pass

import "github.com/ridge-llm/ridge/graph"

// ActQuant lets matrices in block formats (Q8_0, Q4_K …) be multiplied in integers: their inputs are quantised to Q8,
// once for all the matrices that read them. The error this adds is about that of a Q8_0 weight, less than what the
// formats below it already have. Matrices of floats keep their inputs.
func ActQuant(g *graph.Graph, o Options) (*graph.Graph, error) {
	if !o.Q8 {
		return g, nil
	}
	quantised := map[*graph.Value][]*graph.Value{}
	return graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		if _, ok := n.Op.(graph.Linear); !ok || n.Weights[0].Format.Block() == 1 || n.In[0].Type != graph.F32 {
			return false
		}
		x := n.In[0]
		if quantised[x] == nil {
			quantised[x] = r.Add(n.At, x.Name+".q8", graph.Quantize{}, r.Of(n.In), nil)
		}
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, n.Op, quantised[x], n.Weights))
		return true
	})
}
