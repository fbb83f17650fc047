package backend

import (
	"testing"
	"time"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// TestFloor: products, blocks of experts and attention take as long as their arithmetic at the peak of the numbers they multiply; memory is endless here.
func TestFloor(t *testing.T) {
	axis := func(count, size int) graph.Axis { return graph.Axis{Name: "a", Count: count, Size: size} }
	hidden, ffn, experts := axis(64, 1), axis(96, 1), axis(4, 1)
	p := Peaks{Int8: 8e6, FP8: 4e6, BF16: 2e6, F32: 1e6, Read: 1e18}
	step := &graph.Step{Seqs: []graph.Seq{{New: 32}}, Logits: 32}
	matrix := func(out, in graph.Axis) *graph.Weight { return &graph.Weight{Out: out, In: in, Format: quant.BF16} }
	for _, c := range []struct {
		in, round graph.Type
		rate      float64
	}{
		{graph.F32, graph.F32, p.F32}, {graph.BF16, graph.F32, p.BF16}, {graph.F32, graph.BF16, p.BF16},
		{graph.F8, graph.F32, p.FP8}, {graph.I8, graph.F32, p.Int8}, {graph.Q8, graph.Q8, p.Int8},
	} {
		x := &graph.Value{Axis: hidden, Type: c.in}
		scores := &graph.Value{Axis: experts}
		cache := &graph.Value{Cache: &graph.Cache{K: hidden, V: hidden}}
		all := []*graph.Node{
			{Op: graph.Linear{ActType: c.round}, In: []*graph.Value{x}, Weights: []*graph.Weight{matrix(ffn, hidden)}},
			{Op: graph.MoE{Experts: 4, TopK: 2, ActType: c.round}, In: []*graph.Value{x, scores}},
		}
		for range 4 {
			all[1].Weights = append(all[1].Weights, matrix(ffn, hidden), matrix(ffn, hidden), matrix(hidden, ffn))
		}
		if c.round == graph.F32 {
			all = append(all, &graph.Node{Op: graph.Attention{}, In: []*graph.Value{x, cache}})
		}
		for _, n := range all {
			want := time.Duration(float64(n.Op.Work(n, step).FLOPs) / c.rate * 1e9)
			if got := p.Floor(n, step); got != want || got == 0 {
				t.Errorf("%s of %s, rounded to %s: at least %v, want %v", n.Op.Name(), c.in, c.round, got, want)
			}
		}
	}
}
