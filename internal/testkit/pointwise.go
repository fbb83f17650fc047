package testkit

import "github.com/ridge-llm/ridge/graph"

// pointwiseCases treat each number for itself.
func pointwiseCases() []Case {
	hidden, heads := axis("hidden", 96, 1), axis("heads", 3, 32)
	var all []Case
	for _, fn := range []graph.Fn{graph.Silu, graph.GeluTanh, graph.GeluErf, graph.Relu, graph.Relu2, graph.Sigmoid, graph.Identity} {
		all = append(all, perRows("Act", "Act/"+fn.String(), 1e-5, func(b *graph.Builder) *graph.Value {
			return b.Act("y", feed(b, "x", hidden), fn)
		})...)
		all = append(all, perRows("ActMul", "ActMul/"+fn.String(), 1e-5, func(b *graph.Builder) *graph.Value {
			return b.ActMul("y", feed(b, "gate", hidden), feed(b, "up", hidden), fn)
		})...)
	}
	all = append(all, perRows("Add", "Add", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.Add("y", feed(b, "x", hidden), feed(b, "z", hidden))
	})...)
	all = append(all, perRows("Softcap", "Softcap", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.Softcap("y", feed(b, "x", hidden), 1.5)
	})...)
	all = append(all, perRows("Scale", "Scale", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.Scale("y", feed(b, "x", axis("hidden", 1157, 1)), 0.22)
	})...)
	all = append(all, perRows("Scale", "Scale/by position", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.ScaleByPosition("y", feed(b, "x", heads), graph.Growth{Beta: 0.3, Every: 7, From: 1})
	})...)
	all = append(all, perRows("XIELU", "XIELU", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.XIELU("y", feed(b, "x", hidden), graph.XIELU{Positive: 1.3, Negative: 1.1, Beta: 0.5, Eps: -1e-6})
	})...)
	return all
}
