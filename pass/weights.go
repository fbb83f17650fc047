package pass

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// WeightFormat is the format of Options.Weights that goes by a name of --quantization: "fp8" is FP8, "int8" is INT8 and "int4" INT4, or
// Q8_0 and Q4_0 on a device with activations in F32, a CPU, whose kernels multiply integers in blocks of 32. "" is Invalid: weights stay.
func WeightFormat(name string, act graph.Type) (quant.Format, error) {
	switch {
	case name == "":
		return quant.Invalid, nil
	case name == "fp8":
		return quant.FP8, nil
	case name == "int8" && act == graph.F32:
		return quant.Q8_0, nil
	case name == "int8":
		return quant.INT8, nil
	case name == "int4" && act == graph.F32:
		return quant.Q4_0, nil
	case name == "int4":
		return quant.INT4, nil
	}
	return quant.Invalid, fmt.Errorf("weights cannot be turned into %q as they are loaded; fp8, int8 and int4 are possible", name)
}

// Weights turns matrices in F32, F16 or BF16 into the format that the options name: those of linear layers, except the one that makes
// logits, whose errors go straight into what is drawn, and those whose rows do not divide into the format's blocks. Tables that tokens
// are looked up in stay. It is what vLLM's --quantization turns, by the same rule. What meets a matrix in INT4 is not rounded.
func Weights(g *graph.Graph, o Options) (*graph.Graph, error) {
	if o.Weights == quant.Invalid {
		return g, nil
	}
	turned := 0
	after, err := graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		if _, ok := n.Op.(graph.Linear); !ok || n.Out[0].Rows == graph.Logits {
			return false
		}
		w := n.Weights[0]
		if w.Format.Block() > 1 || w.In.Len()%o.Weights.Block() != 0 {
			return false
		}
		turned++
		ws := append([]*graph.Weight{r.Turned(w, o.Weights)}, n.Weights[1:]...)
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, n.Op, r.Of(n.In), ws))
		return true
	})
	if err == nil && turned == 0 {
		return nil, fmt.Errorf("no matrix of the model can be turned into %s: only those in F32, F16 and BF16 can, with rows of a multiple of %d numbers", asked(o.Weights), o.Weights.Block())
	}
	return after, err
}

// asked is a format with the name that WeightFormat was asked for it by, where that is another.
func asked(f quant.Format) string {
	switch f {
	case quant.Q8_0:
		return "Q8_0, which int8 is on a CPU"
	case quant.Q4_0:
		return "Q4_0, which int4 is on a CPU"
	}
	return f.String()
}
