package pass

import (
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// ActQuant rounds the inputs of matrices to what the device multiplies fastest. Matrices in block formats (Q8_0, Q4_K …)
// get inputs in Q8, quantised once for all the matrices that read them; the error this adds is about that of a Q8_0
// weight, less than what the formats below it already have. Matrices in BF16 round theirs to BF16 as they multiply. Other
// matrices keep their inputs. Within a block of experts what its last matrices read is rounded likewise.
func ActQuant(g *graph.Graph, o Options) (*graph.Graph, error) {
	quantised := map[*graph.Value]*graph.Value{}
	return graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		round := roundingOf(n, o)
		if round == graph.F32 {
			return false
		}
		in, x := r.Of(n.In), n.In[0]
		if round == graph.Q8 {
			if quantised[x] == nil {
				quantised[x] = r.Add(n.At, x.Name+".q8", graph.Quantize{}, []*graph.Value{in[0]}, nil)[0]
			}
			in[0] = quantised[x]
		}
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, rounding(n.Op, round), in, n.Weights))
		return true
	})
}

// roundingOf is what the node's inputs are to be rounded to for its matrices; F32: nothing.
func roundingOf(n *graph.Node, o Options) graph.Type {
	matrices := n.Weights[:min(1, len(n.Weights))]
	switch n.Op.(type) {
	case graph.Linear:
	case graph.MoE:
		matrices = n.Weights[:graph.ExpertDown+1] // those of the other experts are like them
	default:
		return graph.F32
	}
	if n.In[0].Type != graph.F32 {
		return graph.F32
	}
	blocks, halves := o.Q8, o.BF16
	for _, w := range matrices {
		blocks, halves = blocks && w.Format.Block() > 1, halves && w.Format == quant.BF16
	}
	switch {
	case blocks:
		return graph.Q8
	case halves:
		return graph.BF16
	}
	return graph.F32
}

// rounding is the op with its inputs rounded. That a Linear's are in Q8 shows in their type.
func rounding(op graph.Op, to graph.Type) graph.Op {
	switch o := op.(type) {
	case graph.Linear:
		if to == graph.BF16 {
			o.Round = to
		}
		return o
	case graph.MoE:
		o.Round = to
		return o
	}
	return op
}
