package pass

import (
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// onLoad are the formats that weights can be quantised to on load, by their names in --quantization. A device with activations in F32, a
// CPU, multiplies integers in blocks of 32; a GPU multiplies rows, or groups of 128, that share a scale.
//
// W8A8 is int8 as a GPU computes it, with a scale a row, on a CPU too. LLM.int8 computes numbers of magnitudes from 6 on in 16 bits, its paper's threshold.
var onLoad = []struct {
	name     string
	cpu, gpu quant.Format
	inputs   Inputs
}{
	{"fp8", quant.FP8, quant.FP8, Inputs{}},
	{"int8", quant.Q8_0, quant.INT8, Inputs{}},
	{"int4", quant.Q4_0, quant.INT4, Inputs{}},
	{"w8a8", quant.INT8, quant.INT8, Inputs{Rounded: true}},
	{"llm.int8", quant.INT8, quant.INT8, Inputs{Rounded: true, Threshold: 6}},
}

// OnLoadInputs is how the inputs of matrices are rounded under a name of --quantization.
func OnLoadInputs(name string) Inputs {
	for _, f := range onLoad {
		if f.name == name {
			return f.inputs
		}
	}
	return Inputs{}
}

// OnLoadFormat is the format of Options.Weights that goes by a name of --quantization on a device with activations of a type. "" is
// Invalid: weights stay as they are.
func OnLoadFormat(name string, act graph.Type) (quant.Format, error) {
	if name == "" {
		return quant.Invalid, nil
	}
	var names []string
	for _, f := range onLoad {
		switch {
		case f.name == name && act == graph.F32:
			return f.cpu, nil
		case f.name == name:
			return f.gpu, nil
		}
		names = append(names, f.name)
	}
	return quant.Invalid, fmt.Errorf("weights cannot be quantised to %q on load; possible are %s", name, strings.Join(names, ", "))
}

// WeightQuant quantises matrices in F32, F16 or BF16 on load, to the format that the options name: those of linear layers, except the one
// that makes logits, whose errors go straight into what is sampled, and those whose rows do not divide into the format's blocks. Embedding
// tables and matrices of one row stay. It is what vLLM's --quantization does, by the same rule. Activations that meet a matrix in INT4 are not quantised.
func WeightQuant(g *graph.Graph, o Options) (*graph.Graph, error) {
	if o.Weights == quant.Invalid {
		return g, nil
	}
	quantised := 0
	after, err := graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		if _, ok := n.Op.(graph.Linear); !ok || n.Out[0].Rows == graph.Logits {
			return false
		}
		w := n.Weights[0]
		if w.Format == o.Weights && o.Inputs.Rounded { // as the file has it; its inputs are rounded
			quantised++
			return false
		}
		if w.Format.Block() > 1 || w.Out.Len() == 1 || w.In.Len()%o.Weights.Block() != 0 {
			return false
		}
		quantised++
		ws := append([]*graph.Weight{r.Requantised(w, o.Weights)}, n.Weights[1:]...)
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, n.Op, r.Of(n.In), ws))
		return true
	})
	if err == nil && quantised == 0 {
		return nil, fmt.Errorf("no matrix of the model can be quantised to %s: only those in F32, F16 and BF16 can, with rows of a multiple of %d numbers", named(o.Weights), o.Weights.Block())
	}
	return after, err
}

// named is a format with the name in --quantization that stands for it on a CPU, where that is another.
func named(f quant.Format) string {
	for _, l := range onLoad {
		if l.cpu == f && l.cpu != l.gpu {
			return fmt.Sprintf("%s, which %s is on a CPU", f, l.name)
		}
	}
	return f.String()
}
