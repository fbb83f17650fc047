package pass

import (
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Inputs says how inputs of matrices in INT8 are rounded. On a device that multiplies those in floats a product in 8 bits is one of rounded numbers; on one that
// multiplies integers inputs are rounded anyway.
type Inputs struct {
	Rounded   bool
	Threshold float64 // magnitude from which on numbers stay in 16 bits; 0: none does. See graph.RoundRows and graph.AddOutliers
}

// RoundInputs rounds the inputs of linear layers in INT8 as the options say, each once for all the matrices that read it. Without it only the weights are in 8
// bits.
func RoundInputs(g *graph.Graph, o Options) (*graph.Graph, error) {
	if !o.Inputs.Rounded {
		return g, nil
	}
	reads := func(n *graph.Node) bool {
		_, linear := n.Op.(graph.Linear)
		return linear && n.Weights[0].Format == quant.INT8 && n.In[0].Type == graph.F32
	}
	wanted := map[*graph.Value]bool{}
	for _, n := range g.Nodes {
		if reads(n) {
			wanted[n.In[0]] = true
		}
	}
	rounded := map[*graph.Value]*graph.Value{}
	return graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		in := r.Of(n.In)
		if reads(n) {
			in[0] = rounded[n.In[0]]
		}
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, n.Op, in, n.Weights))
		for _, v := range n.Out {
			if wanted[v] {
				rounded[v] = r.Add(n.At, v.Name+".rounded", graph.RoundRows{Threshold: o.Inputs.Threshold}, r.Of([]*graph.Value{v}), nil)[0]
			}
		}
		return true
	})
}
