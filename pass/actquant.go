package pass

import (
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// ActQuant rounds the inputs of matrices to what the device multiplies fastest. Matrices in block formats (Q8_0, Q4_K …)
// get inputs in Q8, quantised once for all the matrices that read them; the error this adds is about that of a Q8_0
// weight, less than what the formats below it already have. On a GPU, whose activations are in BF16, matrices in FP8 and
// INT8 get inputs rounded as they are, which tensor cores multiply twice as fast; with Inputs.Threshold what large numbers come to is added to the products of
// those in INT8. Matrices in BF16 round theirs to BF16 as
// they multiply. Other matrices keep their inputs. Within a block of experts what its last matrices read is rounded likewise.
func ActQuant(g *graph.Graph, o Options) (*graph.Graph, error) {
	type as struct {
		value *graph.Value
		to    graph.Type
	}
	wanted := map[*graph.Value][]graph.Type{} // of each value, in the order in which it is needed so
	for _, n := range g.Nodes {
		if to := roundingOf(n, o); to != graph.F32 && to != graph.BF16 && !slices.Contains(wanted[n.In[0]], to) {
			wanted[n.In[0]] = append(wanted[n.In[0]], to)
		}
	}
	quantised := map[as]*graph.Value{}
	return graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		round, in := roundingOf(n, o), r.Of(n.In)
		if len(in) > 0 && quantised[as{n.In[0], round}] != nil {
			in[0] = quantised[as{n.In[0], round}]
		}
		op := n.Op
		if round != graph.F32 {
			op = rounding(op, round)
		} else if o.Q8 && decoded(n) {
			op = roundingMany(op)
		}
		out := r.Add(n.At, n.Out[0].Name, op, in, n.Weights)
		if below := outliers(round, o); below > 0 {
			out = r.Add(n.At, n.Out[0].Name+".whole", graph.AddOutliers{Threshold: below}, []*graph.Value{out[0], r.Of(n.In)[0]}, n.Weights[:1])
		}
		r.Replace(n.Out, out)
		for _, v := range n.Out { // right behind what makes it, which may do both in one pass over the rows
			for _, to := range wanted[v] {
				quantised[as{v, to}] = r.Add(n.At, v.Name+"."+to.String(), graph.Quantize{To: to, Below: outliers(to, o)}, r.Of([]*graph.Value{v}), nil)[0]
			}
		}
		return true
	})
}

// outliers is the magnitude from which on numbers of rows that are rounded to a type are multiplied in 16 bits; 0: none is.
func outliers(to graph.Type, o Options) float64 {
	if to != graph.I8 {
		return 0
	}
	return o.Inputs.Threshold
}

// roundingOf is what the node's inputs are to be rounded to for its matrices; F32: nothing.
func roundingOf(n *graph.Node, o Options) graph.Type {
	matrices := n.Weights[:min(1, len(n.Weights))]
	switch n.Op.(type) {
	case graph.Linear:
		if n.Weights[0].Out.Len() == 1 { // a vector
			return graph.F32
		}
	case graph.MoE, graph.AdaptedMoE:
		matrices = n.Weights[:graph.ExpertDown+1] // those of the other experts are like them
	default:
		return graph.F32
	}
	if n.In[0].Type != graph.F32 {
		return scaledType(n)
	}
	blocks, halves := o.Q8, o.BF16
	for _, w := range matrices {
		blocks, halves = blocks && InIntegers(w.Format), halves && w.Format == quant.BF16
	}
	switch {
	case blocks:
		return graph.Q8
	case halves:
		return graph.BF16
	}
	return graph.F32
}

// InIntegers reports whether matrices in a format are multiplied with inputs in Q8: those in blocks of whole numbers.
func InIntegers(f quant.Format) bool {
	return f.Block() > 1 && !f.ScaledRows() && !f.Descriptor().FloatCodes
}

// MayRound reports whether matrices in a format may have many inputs rounded to Q8 as they are multiplied.
func MayRound(f quant.Format) bool { return slices.Contains(decodedFormats, f) }

// decodedFormats are those of matrices whose codes stand for floats, or have one scale a row, that bytes with a scale for 32 numbers may stand in for: what that
// loses is what the rounding of inputs to Q8 does.
var decodedFormats = []quant.Format{quant.FP8, quant.FP8_BLOCK, quant.INT8, quant.NF4, quant.FP4, quant.NVFP4_ROW}

// decoded reports whether a node multiplies with matrices in such formats, and inputs that have not been rounded already: it may round many of them as it
// multiplies.
func decoded(n *graph.Node) bool {
	matrices := n.Weights[:min(1, len(n.Weights))]
	switch n.Op.(type) {
	case graph.Linear:
		if n.Weights[0].Out.Len() == 1 {
			return false
		}
	case graph.MoE, graph.AdaptedMoE:
		matrices = n.Weights[:graph.ExpertMatrices]
	default:
		return false
	}
	if n.In[0].Type != graph.F32 || slices.ContainsFunc(matrices, func(w *graph.Weight) bool { return !MayRound(w.Format) }) {
		return false
	}
	if n.In[0].From == nil {
		return true
	}
	_, rounded := n.In[0].From.Op.(graph.RoundRows)
	return !rounded
}

// roundingMany is the op with leave to round many inputs to Q8.
func roundingMany(op graph.Op) graph.Op {
	switch o := op.(type) {
	case graph.Linear:
		o.ActType = graph.Q8
		return o
	case graph.MoE:
		o.Rounds = true
		return o
	case graph.AdaptedMoE:
		o.Rounds = true
		return o
	}
	return op
}

// scaledType is what inputs in BF16 are to be rounded to; F32: nothing.
func scaledType(n *graph.Node) graph.Type {
	if _, ok := n.Op.(graph.Linear); ok && n.In[0].Type == graph.BF16 {
		return graph.ScaledRows(n.Weights[0].Format)
	}
	return graph.F32
}

// rounding is the op with its inputs rounded. That a Linear's are in Q8, F8 or I8 shows in their type.
func rounding(op graph.Op, to graph.Type) graph.Op {
	switch o := op.(type) {
	case graph.Linear:
		if to == graph.BF16 {
			o.ActType = to
		}
		return o
	case graph.MoE:
		o.ActType = to
		return o
	case graph.AdaptedMoE:
		o.ActType = to
		return o
	}
	return op
}
