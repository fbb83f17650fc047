package testkit

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// embedCases look rows of tables up: by ids, some of which have none, by positions, by segments.
func embedCases() []Case {
	hidden := axis("hidden", 96, 1)
	var all []Case
	all = append(all, perRows("Embed", "Embed/ids", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.Embed("e", b.Weight("t_embd/Q8_0", axis("vocab", tableVocab, 1), hidden), 3.5)
	})...)
	all = append(all, perRows("Embed", "Embed/known", 1e-6, func(b *graph.Builder) *graph.Value { // beside the input; some ids have no row
		x := feed(b, "x", hidden)
		return b.Add("y", x, b.EmbedKnown("e", b.Weight("t_embd", axis("tokens", tableVocab-20, 1), hidden), 3.5))
	})...)
	all = append(all, perRows("Embed", "Embed/positions", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.EmbedPosition("e", b.Weight("t_embd", axis("positions", 80, 1), hidden))
	})...)
	for _, types := range []int{1, 2} {
		all = append(all, perRows("Embed", fmt.Sprintf("Embed/segment of %d", types), 1e-6, func(b *graph.Builder) *graph.Value {
			return b.EmbedSegment("e", b.Weight("t_embd", axis("types", types, 1), hidden))
		})...)
	}
	return all
}

// normCases normalise rows, heads and groups.
func normCases() []Case {
	hidden, heads := axis("hidden", 96, 1), axis("heads", 3, 32)
	var all []Case
	all = append(all, perRows("RMSNorm", "RMSNorm", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.RMSNorm("y", feed(b, "x", hidden), b.Vector("norm", hidden), 1e-6)
	})...)
	all = append(all, perRows("RMSNorm", "RMSNorm/heads", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.GroupRMSNorm("y", feed(b, "x", heads), b.Vector("norm", axis("head", 1, 32)), 1e-6)
	})...)
	all = append(all, perRows("RMSNorm", "RMSNorm/groups", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.Emit("y", graph.RMSNorm{Eps: 1e-6, Groups: 3}, []*graph.Value{feed(b, "x", heads)}, b.Vector("norm", heads))[0]
	})...)
	all = append(all, perRows("LayerNorm", "LayerNorm", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.LayerNorm("y", feed(b, "x", hidden), b.Vector("norm", hidden), b.Vector("bias", hidden), 1e-5)
	})...)
	all = append(all, perRows("AddNorm", "AddNorm/sum", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.Emit("y", graph.AddNorm{Eps: 1e-6}, []*graph.Value{feed(b, "x", hidden), feed(b, "z", hidden)}, b.Vector("norm", hidden))[0]
	})...)
	all = append(all, perRows("AddNorm", "AddNorm/norm", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.Emit("y", graph.AddNorm{Eps: 1e-6}, []*graph.Value{feed(b, "x", hidden), feed(b, "z", hidden)}, b.Vector("norm", hidden))[1]
	})...)
	return all
}

// ropeCases rotate pairs of numbers.
func ropeCases() []Case {
	heads := axis("heads", 3, 32)
	var all []Case
	for _, r := range []graph.Rotation{
		{Name: "a", Pairing: graph.HalfPairs, Dim: 32, Theta: 10000},
		{Name: "a", Pairing: graph.AdjacentPairs, Dim: 32, Theta: 500},
		{Name: "a", Pairing: graph.HalfPairs, Dim: 20, Theta: 10000},
		{Name: "a", Pairing: graph.HalfPairs, Dim: 32, Theta: 10000, Scaling: graph.Scaling{Kind: graph.DynamicScaling, Factor: 2, OrigContext: 8}},
	} {
		all = append(all, perRows("RoPE", fmt.Sprintf("RoPE/%s/%d/%s", r.Pairing, r.Dim, r.Scaling.Kind), 1e-5, func(b *graph.Builder) *graph.Value {
			return b.RoPE("y", feed(b, "x", heads), &r)
		})...)
	}
	all = append(all, perRows("RoPE", "RoPE/from 20", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.RoPEFrom("y", feed(b, "x", heads), &graph.Rotation{Name: "a", Pairing: graph.AdjacentPairs, Dim: 12, Theta: 500}, 20)
	})...)
	return all
}

// choiceCases choose rows, and multiply them by what a gate says.
func choiceCases() []Case {
	hidden := axis("hidden", 96, 1)
	var all []Case
	all = append(all, perRows("GateRows", "GateRows", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.GateRows("y", feed(b, "x", hidden), feed(b, "gate", axis("gate", 1, 1)))
	})...)
	all = append(all, perRows("GateRows", "GateRows/largest of 5", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.GateRows("y", feed(b, "x", hidden), feed(b, "gate", axis("experts", 5, 1)))
	})...)
	all = append(all, perRows("SelectRows", "SelectRows/odd", 0, func(b *graph.Builder) *graph.Value {
		return b.SelectRows("y", feed(b, "x", axis("hidden", 33, 1)))
	})...)
	all = append(all, perRows("SelectRows", "SelectRows", 0, func(b *graph.Builder) *graph.Value {
		return b.SelectRows("y", feed(b, "x", hidden))
	})...)
	return all
}
