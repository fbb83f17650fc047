package testkit

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// routeCases choose among experts in every way.
func routeCases() []Case {
	var all []Case
	for _, c := range []struct {
		experts int
		bias    bool
		o       graph.Route
	}{
		{8, false, graph.Route{TopK: 2}},
		{16, false, graph.Route{TopK: 4, Sigmoid: true, NoRenorm: true}},
		{40, true, graph.Route{TopK: 6, NoRenorm: true, Scale: 1.5}},
		{16, false, graph.Route{TopK: 2, NoRenorm: true, Mixer: 0.02}},
		{70, false, graph.Route{TopK: 2, NoRenorm: true, Mixer: 0.6}},
		{24, false, graph.Route{TopK: 3, Groups: 4, TopGroups: 2, NoRenorm: true, Scale: 16}},
		{32, true, graph.Route{TopK: 4, Sigmoid: true, Scale: 2.5, Groups: 8, TopGroups: 4, BestTwo: true}},
		{256, true, graph.Route{TopK: 8, Sigmoid: true, Scale: 2.5, Groups: 8, TopGroups: 4, BestTwo: true}},
	} {
		for _, steps := range rowSteps() {
			all = append(all, Case{
				Name: fmt.Sprintf("Route/%s/of %d/bias %v/rows%d", c.o.Attrs(), c.experts, c.bias, LimitsFor(steps, 16).Tokens), Op: "Route", Steps: steps, Tolerance: 1e-5,
				Graph: func(b *graph.Builder) *graph.Value {
					experts := axis("experts", c.experts, 1)
					var bias *graph.Weight
					if c.bias {
						bias = b.Vector("bias", experts)
					}
					return b.Route("y", feed(b, "scores", experts), c.o, bias)
				},
			})
		}
	}
	return all
}

// moeCases are blocks of experts: one and several for each row, few and all of them, in floats and in block formats with
// inputs in Q8, with biases and bounds.
func moeCases() []Case {
	var all []Case
	for _, c := range []struct {
		o       graph.MoE
		in, ffn int
		format  quant.Format
		down    quant.Format // of the last matrices; Invalid: the same
	}{
		{graph.MoE{Experts: 4, TopK: 1}, 64, 96, quant.F32, quant.Invalid},
		{graph.MoE{Experts: 8, TopK: 2}, 96, 64, quant.BF16, quant.Invalid},
		{graph.MoE{Experts: 4, TopK: 2, ActType: graph.BF16}, 64, 32, quant.BF16, quant.Invalid},
		{graph.MoE{Experts: 16, TopK: 5, NoRenorm: true}, 64, 32, quant.F32, quant.Invalid},
		{graph.MoE{Experts: 3, TopK: 3, Fn: graph.GeluTanh}, 40, 24, quant.F32, quant.Invalid},
		{graph.MoE{Experts: 5, TopK: 2, Biased: true, Clamp: 0.7}, 64, 160, quant.F32, quant.Invalid},
		{graph.MoE{Experts: 8, TopK: 2}, 256, 512, quant.Q4_0, quant.Invalid},
		{graph.MoE{Experts: 4, TopK: 3}, 256, 256, quant.Q4_K, quant.Invalid},
		{graph.MoE{Experts: 4, TopK: 2, Biased: true, Clamp: 7}, 96, 64, quant.MXFP4, quant.Invalid},
		{graph.MoE{Experts: 8, TopK: 2, ActType: graph.Q8}, 256, 512, quant.Q4_0, quant.Invalid},
		{graph.MoE{Experts: 8, TopK: 3, ActType: graph.Q8}, 256, 256, quant.Q4_K, quant.Invalid},
		{graph.MoE{Experts: 4, TopK: 2, Biased: true, Clamp: 7, ActType: graph.Q8}, 96, 64, quant.MXFP4, quant.Invalid},
		{graph.MoE{Experts: 8, TopK: 2}, 160, 96, quant.Q8_0, quant.Invalid},
		{graph.MoE{Experts: 6, TopK: 2, NoRenorm: true}, 256, 256, quant.Q6_K, quant.Invalid},
		{graph.MoE{Experts: 4, TopK: 2}, 64, 96, quant.Q5_0, quant.Invalid},
		{graph.MoE{Experts: 8, TopK: 3, Shares: true}, 64, 96, quant.BF16, quant.Invalid},
		{graph.MoE{Experts: 8, TopK: 2, Shares: true, ActType: graph.Q8}, 256, 256, quant.Q4_K, quant.Invalid},
		{graph.MoE{Experts: 8, TopK: 2, Biased: true}, 64, 40, quant.Q8_0, quant.F16}, // whose rows do not divide into blocks
		{graph.MoE{Experts: 4, TopK: 2}, 128, 256, quant.FP8_BLOCK, quant.Invalid},
		{graph.MoE{Experts: 4, TopK: 2, Rounds: true}, 128, 256, quant.FP8_BLOCK, quant.Invalid},
		{graph.MoE{Experts: 3, TopK: 2, Rounds: true, Biased: true}, 192, 96, quant.NVFP4_ROW, quant.Invalid},
		{graph.MoE{Experts: 6, TopK: 3, Shares: true, Fn: graph.Relu}, 64, 96, quant.BF16, quant.Invalid},
		{graph.MoE{Experts: 5, TopK: 2, Fn: graph.Relu}, 256, 512, quant.Q4_0, quant.Invalid},
	} {
		tolerance := 1e-5
		switch c.o.ActType {
		case graph.Q8:
			tolerance = 5e-3 // a number in the middle between two may be rounded either way
		case graph.BF16:
			tolerance = 2e-2 // as in roundedCases, but rounded twice, and the experts' sums may cancel
		}
		if c.o.Rounds {
			tolerance = 2e-2 // weights too
		}
		formats, down := c.format.String(), c.format
		if c.down != quant.Invalid {
			down = c.down
			formats += "+" + down.String()
		}
		rounded := c.o.ActType.String()
		if c.o.Rounds {
			rounded = "Q8 if many"
		}
		for _, steps := range rowSteps() {
			all = append(all, Case{
				Name: fmt.Sprintf("MoE/%d of %d/%s/%s/rounded to %s/rows%d", c.o.TopK, c.o.Experts, c.o.Fn, formats, rounded, LimitsFor(steps, 16).Tokens), Op: "MoE", Steps: steps, Tolerance: tolerance,
				Graph: func(b *graph.Builder) *graph.Value {
					hidden, ffn := axis("hidden", c.in, 1), axis("ffn", c.ffn, 1)
					experts, one := axis("experts", c.o.Experts, 1), axis("one", 1, 1)
					name := func(s string, f quant.Format) string { return fmt.Sprintf("%s/%s", s, f) }
					weights := []*graph.Weight{
						b.Stack(name("gate", c.format), experts, ffn, hidden), b.Stack(name("up", c.format), experts, ffn, hidden), b.Stack(name("down", down), experts, hidden, ffn),
					}
					if c.o.Fn == graph.Relu { // as Nemotron 3 has it: relu(u)·u with one matrix for both
						weights[graph.ExpertUp] = weights[graph.ExpertGate]
					}
					if c.o.Biased {
						weights = append(weights, b.Stack("gatebias", experts, one, ffn), b.Stack("upbias", experts, one, ffn), b.Stack("downbias", experts, one, hidden))
					}
					x := feed(b, "x", hidden)
					if c.o.ActType == graph.Q8 {
						x = b.Emit("x8", graph.Quantize{To: graph.Q8}, []*graph.Value{x})[0]
					}
					scores := feed(b, "scores", experts)
					if c.o.Shares {
						scores = b.Route("shares", scores, graph.Route{TopK: c.o.TopK, Sigmoid: true, Scale: 2.5}, nil)
					}
					return b.MoE("y", x, scores, c.o, weights)
				},
			})
		}
	}
	return all
}
