package pass

import (
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// ActQuant rounds the inputs of matrices to what the device multiplies fastest. Matrices in block formats (Q8_0, Q4_K …)
// get inputs in Q8, quantised once for all the matrices that read them; the error this adds is about that of a Q8_0
// weight, less than what the formats below it already have. Matrices in BF16 round theirs to BF16 as they multiply. Other
// matrices keep their inputs.
func ActQuant(g *graph.Graph, o Options) (*graph.Graph, error) {
	quantised := map[*graph.Value][]*graph.Value{}
	return graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		op, ok := n.Op.(graph.Linear)
		if !ok || n.In[0].Type != graph.F32 {
			return false
		}
		in := r.Of(n.In)
		switch format := n.Weights[0].Format; {
		case o.Q8 && format.Block() > 1:
			x := n.In[0]
			if quantised[x] == nil {
				quantised[x] = r.Add(n.At, x.Name+".q8", graph.Quantize{}, in, nil)
			}
			in = quantised[x]
		case o.BF16 && format == quant.BF16:
			op.Round = graph.BF16
		default:
			return false
		}
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, op, in, n.Weights))
		return true
	})
}
