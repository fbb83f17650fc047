package testkit

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// recurrentCases go on with sequences' states over several steps: those that begin at different times, prompts of any length beside single
// tokens.
func recurrentCases() []Case {
	steps := []Steps{
		{{1}, {1}, {1}},
		{{17, 3, 0}, {1, 40, 2}, {1, 1, 1}},
		{{130, 1}, {1, 1}, {33, 65}},
	}
	var all []Case
	add := func(op, name string, g func(b *graph.Builder) *graph.Value) {
		for i, s := range steps {
			all = append(all, Case{Name: fmt.Sprintf("%s/%s/steps%d", op, name, i), Op: op, Steps: s, Tolerance: 2e-5, Graph: g})
		}
	}
	for _, c := range []struct {
		channels, width int
		bias, silu      bool
	}{{64, 3, false, false}, {96, 4, true, true}, {33, 4, false, true}, {1040, 2, true, false}} {
		add("CausalConv", fmt.Sprintf("%dx%d", c.channels, c.width), func(b *graph.Builder) *graph.Value {
			a := axis("channels", c.channels, 1)
			var bias *graph.Weight
			if c.bias {
				bias = b.Vector("bias", a)
			}
			return b.CausalConv("y", 0, feed(b, "x", a), b.Weight("w", a, axis("width", c.width, 1)), bias, c.silu)
		})
	}
	for _, o := range []graph.GatedDelta{
		{KeyHeads: 2, KeySize: 16, ValueHeads: 4, ValueSize: 16}, {KeyHeads: 1, KeySize: 24, ValueHeads: 1, ValueSize: 40},
		{KeyHeads: 2, KeySize: 128, ValueHeads: 2, ValueSize: 128}, {KeyHeads: 1, KeySize: 64, ValueHeads: 3, ValueSize: 64}, {KeyHeads: 2, KeySize: 32, ValueHeads: 6, ValueSize: 32, Tiled: true},
		{KeyHeads: 2, KeySize: 128, ValueHeads: 6, ValueSize: 64, Tiled: true},
	} {
		add("GatedDelta", o.Attrs(), func(b *graph.Builder) *graph.Value {
			heads := axis("heads", o.ValueHeads, 1)
			return b.GatedDelta("y", 0, feed(b, "x", axis("qkv", o.Width(), 1)), feed(b, "a", heads), feed(b, "b", heads), o, b.Vector("decay", heads), b.Vector("bias", heads))
		})
	}
	for _, c := range []struct {
		graph.KimiDelta
		decay string
	}{{graph.KimiDelta{Heads: 3, Size: 16}, "decay"}, {graph.KimiDelta{Heads: 2, Size: 40}, "decay"}, {graph.KimiDelta{Heads: 2, Size: 128}, "decay"}, {graph.KimiDelta{Heads: 2, Size: 64}, "strong_decay"}} {
		add("KimiDelta", c.Attrs(), func(b *graph.Builder) *graph.Value {
			rows, heads := axis("values", c.Heads, c.Size), axis("heads", c.Heads, 1)
			return b.KimiDelta("y", 0, feed(b, "q", rows), feed(b, "k", rows), feed(b, "v", rows), feed(b, "a", rows), feed(b, "b", heads), c.KimiDelta, b.Weight(c.decay, heads, axis("one", 1, 1)), b.Vector("bias", rows))
		})
	}
	for _, o := range []graph.SSD{
		{Heads: 4, HeadSize: 16, Groups: 2, StateSize: 16}, {Heads: 3, HeadSize: 24, Groups: 1, StateSize: 40, MinStep: 0.001, MaxStep: 0.9},
		{Heads: 2, HeadSize: 64, Groups: 1, StateSize: 128}, {Heads: 20, HeadSize: 96, Groups: 2, StateSize: 64},
	} {
		add("SSD", fmt.Sprintf("%dx%d:%dx%d", o.Heads, o.HeadSize, o.Groups, o.StateSize), func(b *graph.Builder) *graph.Value {
			heads := axis("heads", o.Heads, 1)
			return b.SSD("y", 0, feed(b, "x", axis("xbc", o.Width(), 1)), feed(b, "dt", heads), o, b.Vector("decay", heads), b.Vector("bias", heads), b.Vector("skip", heads))
		})
	}
	for _, c := range []struct{ inner, size int }{{64, 16}, {40, 5}, {272, 8}} {
		add("SelectiveScan", fmt.Sprintf("%dx%d", c.inner, c.size), func(b *graph.Builder) *graph.Value {
			inner, size := axis("inner", c.inner, 1), axis("state", c.size, 1)
			return b.SelectiveScan("y", 0, feed(b, "x", inner), feed(b, "dt", inner), feed(b, "b", size), feed(b, "c", size), b.Weight("decay", inner, size), b.Vector("skip", inner))
		})
	}
	return all
}
