package testkit

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// streamCases are what treats rows of several streams, parts of rows, and their thresholds.
func streamCases() []Case {
	var all []Case
	for _, size := range []int{96, 33} {
		hidden, streams := axis("hidden", size, 1), axis("streams", 4, size)
		add := func(op, name string, g func(b *graph.Builder) *graph.Value) {
			all = append(all, perRows(op, fmt.Sprintf("%s/%d", name, size), 1e-5, g)...)
		}
		add("ExpandStreams", "ExpandStreams", func(b *graph.Builder) *graph.Value {
			return b.ExpandStreams("y", feed(b, "x", hidden), feed(b, "z", axis("streams", 3, size)), 1e-5)
		})
		add("ExpandStreams", "ExpandStreams/small", func(b *graph.Builder) *graph.Value { // the mean square counts as more than it is
			return b.ExpandStreams("y", feed(b, "x", hidden), feed(b, "z", axis("streams", 1, size)), 1e3)
		})
		add("MixStreams", "MixStreams", func(b *graph.Builder) *graph.Value {
			return b.MixStreams("y", feed(b, "x", streams), feed(b, "c", axis("mix", 16, 1)))
		})
		add("AddToStreams", "AddToStreams", func(b *graph.Builder) *graph.Value {
			return b.AddToStreams("y", feed(b, "x", streams), feed(b, "z", hidden), 1)
		})
		add("AddToStreams", "AddToStreams/scaled", func(b *graph.Builder) *graph.Value {
			return b.AddScaledToStreams("y", feed(b, "x", streams), feed(b, "z", hidden), feed(b, "c", axis("by", 4, 1)))
		})
		add("MeanStreams", "MeanStreams", func(b *graph.Builder) *graph.Value { return b.MeanStreams("y", feed(b, "x", streams)) })
		add("Columns", "Columns", func(b *graph.Builder) *graph.Value {
			return b.Columns("y", feed(b, "x", streams), 2*size, hidden)
		})
		add("Columns", "Columns/odd", func(b *graph.Builder) *graph.Value {
			return b.Columns("y", feed(b, "x", streams), 17, axis("part", 21, 1))
		})
		add("ScaleColumns", "ScaleColumns", func(b *graph.Builder) *graph.Value {
			return b.ScaleColumns("y", feed(b, "x", hidden), b.Vector("by", hidden))
		})
		add("ScaleColumns", "ScaleColumns/one", func(b *graph.Builder) *graph.Value {
			return b.ScaleColumns("y", feed(b, "x", hidden), b.Vector("by", axis("one", 1, 1)))
		})
		for _, threshold := range []float64{0, 0.8} {
			add("RoundRows", fmt.Sprintf("RoundRows/%g", threshold), func(b *graph.Builder) *graph.Value {
				return b.Emit("y", graph.RoundRows{Threshold: threshold}, []*graph.Value{feed(b, "x", hidden)})[0]
			})
		}
		add("RowSums", "RowSums", func(b *graph.Builder) *graph.Value {
			return b.Emit("y", graph.RowSums{}, []*graph.Value{feed(b, "x", hidden)})[0]
		})
		add("RowSums", "RowSums/plain", func(b *graph.Builder) *graph.Value {
			return b.Emit("y", graph.RowSums{Plain: true}, []*graph.Value{feed(b, "x", hidden)})[0]
		})
		add("RMSNorm", "RMSNorm/of a shard", func(b *graph.Builder) *graph.Value {
			x := feed(b, "x", hidden)
			return b.Emit("y", graph.RMSNorm{Eps: 1e-6, Of: 3 * size}, []*graph.Value{x, rowSums(b, x, false)}, b.Vector("norm", hidden))[0]
		})
		add("GaussianTopK", "GaussianTopK/of a shard", func(b *graph.Builder) *graph.Value {
			x := feed(b, "x", hidden)
			return b.Emit("y", graph.GaussianTopK{Deviations: 0.7, Of: 3 * size}, []*graph.Value{x, rowSums(b, x, true)})[0]
		})
		add("GaussianTopK", "GaussianTopK", func(b *graph.Builder) *graph.Value {
			return b.GaussianTopK("y", feed(b, "x", hidden), 0.7)
		})
	}
	return all
}

// rowSums is what shards of rows are told of the others.
func rowSums(b *graph.Builder, x *graph.Value, plain bool) *graph.Value {
	return b.Emit("sums", graph.RowSums{Plain: plain}, []*graph.Value{x})[0]
}
