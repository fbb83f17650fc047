package graph_test

import (
	"math"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

func axis(name string, n int) graph.Axis { return graph.Axis{Name: name, Count: n, Size: 1} }

// TestStep counts pairs and rows one by one.
func TestStep(t *testing.T) {
	for _, window := range []int{0, 1, 5, 16, 100} {
		for _, q := range []graph.Seq{{New: 1}, {New: 7}, {New: 1, Past: 9}, {New: 12, Past: 3}, {New: 40, Past: 60}} {
			var pairs int64
			seen := map[int]bool{}
			for p := q.Past; p < q.Past+q.New; p++ {
				for k := 0; k <= p; k++ {
					if window == 0 || k > p-window {
						pairs++
						seen[k] = true
					}
				}
			}
			s := graph.Step{Seqs: []graph.Seq{q}}
			if got := s.Pairs(window); got != pairs {
				t.Errorf("window %d, %+v: %d pairs, counted %d", window, q, got, pairs)
			}
			if got := s.CtxRows(window); got != int64(len(seen)) {
				t.Errorf("window %d, %+v: %d rows, counted %d", window, q, got, len(seen))
			}
		}
	}
}

// TestWeights: a weight is all of its tensor, as one matrix or a stack, or a part of it with a recipe of its own; what does not fit is an
// error with both sizes.
func TestWeights(t *testing.T) {
	lookup := func(name string) (graph.Stored, bool) {
		rows := 12
		if name == "vector" {
			rows = 1
		}
		return graph.Stored{Format: quant.F32, Rows: rows, Cols: 8, Recipe: recipe.Tensor("file." + name)}, name != "missing"
	}
	four, three, eight := axis("a", 4), axis("b", 3), axis("c", 8)
	for want, ask := range map[string]func(b *graph.Builder) *graph.Weight{
		"m [a 12, c 8] F32 = file.m":                                                     func(b *graph.Builder) *graph.Weight { return b.Weight("m", axis("a", 12), eight) },
		"m [a 4, b 3, c 8] F32 = file.m":                                                 func(b *graph.Builder) *graph.Weight { return b.Stack("m", four, three, eight) },
		"m[3:7] [a 4, c 8] F32 = file.m[3:7]":                                            func(b *graph.Builder) *graph.Weight { return b.Part("m", 3, four, eight) },
		"vector[2:6] [one 1, a 4] F32 = file.vector[2:6]":                                func(b *graph.Builder) *graph.Weight { return b.VectorPart("vector", 2, four) },
		"weight m (tensor file.m) is 12 × 8, and the configuration asks for 9 × 8":       func(b *graph.Builder) *graph.Weight { return b.Stack("m", three, three, eight) },
		"weight m[9:13] (tensor file.m) is 12 × 8, and the configuration asks for 4 × 8": func(b *graph.Builder) *graph.Weight { return b.Part("m", 9, four, eight) },
		"the model has no weight missing (4 × 8)":                                        func(b *graph.Builder) *graph.Weight { return b.Weight("missing", four, eight) },
	} {
		b := graph.NewBuilder("test", lookup, graph.F32, graph.F32)
		w := ask(b)
		got := w.String()
		if w.Recipe != nil {
			got += " = " + w.Recipe.String()
		}
		if _, err := b.Finish(nil); w.Recipe == nil && err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestErrors: the first mistake sticks, with the line of the code that made it.
func TestErrors(t *testing.T) {
	hidden := axis("hidden", 8)
	for want, build := range map[string]func(b *graph.Builder) *graph.Value{
		"has rows of 8 and weight w takes 9": func(b *graph.Builder) *graph.Value {
			return b.Linear("y", b.Embed("x", b.Weight("e", axis("vocab", 4), hidden), 0), b.Weight("w", hidden, axis("in", 9)), nil)
		},
		"weight n is 1 × 7 and one row of 8 is wanted": func(b *graph.Builder) *graph.Value {
			return b.RMSNorm("y", b.Embed("x", b.Weight("e", axis("vocab", 4), hidden), 0), b.Vector("n", axis("h", 7)), 1e-5)
		},
		"3 query heads cannot share 2 key heads": func(b *graph.Builder) *graph.Value {
			kv := graph.Axis{Name: "kv", Count: 2, Size: 4}
			q := b.Embed("q", b.Weight("e", axis("vocab", 4), graph.Axis{Name: "heads", Count: 3, Size: 4}), 0)
			return b.Attention("y", q, b.Cache(0, kv, kv, 0), graph.Attention{Scale: 1})
		},
		"weight up is 3 × 8 × 8 and 4 × 8 × 8 is wanted": func(b *graph.Builder) *graph.Value {
			x, experts := b.Embed("x", b.Weight("e", axis("vocab", 4), hidden), 0), axis("experts", 4)
			weights := []*graph.Weight{b.Stack("gate", experts, hidden, hidden), b.Stack("up", axis("experts", 3), hidden, hidden), b.Stack("down", experts, hidden, hidden)}
			return b.MoE("y", x, b.Embed("scores", b.Weight("s", axis("vocab", 4), experts), 0), graph.MoE{Experts: 4, TopK: 1}, weights)
		},
		"do not divide into Q4_0 blocks": func(b *graph.Builder) *graph.Value {
			return b.Embed("x", b.Weight("e/Q4_0", axis("vocab", 4), hidden), 0)
		},
	} {
		b := graph.NewBuilder("test", testkit.Lookup, graph.F32, graph.F32)
		_, err := b.Finish(build(b))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "graph_test.go:") {
			t.Errorf("error %v; it should say %q and where", err, want)
		}
	}
}

// TestVerify: a cache that was overwritten may not be read any more.
func TestVerify(t *testing.T) {
	kv := graph.Axis{Name: "kv", Count: 1, Size: 8}
	b := graph.NewBuilder("test", testkit.Lookup, graph.F32, graph.F32)
	k := b.Embed("k", b.Weight("e", axis("vocab", 4), kv), 0)
	first := b.KVWrite(b.Cache(0, kv, kv, 0), k, k)
	b.KVWrite(first, k, k)
	_, err := b.Finish(b.Attention("y", k, first, graph.Attention{Scale: 1}))
	if err == nil || !strings.Contains(err.Error(), "has overwritten") {
		t.Errorf("error %v", err)
	}
}

// TestFrequencies checks each scaling where its definition is plain: the ends that are kept and those that are
// divided.
func TestFrequencies(t *testing.T) {
	plain, _ := (&graph.Rotation{Dim: 64, Theta: 10000}).Frequencies(0)
	for _, c := range []struct {
		scaling     graph.Scaling
		length      int
		first, last float64 // of the plain frequency
	}{
		{graph.Scaling{Kind: graph.LinearScaling, Factor: 4}, 0, 0.25, 0.25},
		{graph.Scaling{Kind: graph.Llama3Scaling, Factor: 8, LowFreq: 1, HighFreq: 4, OrigContext: 512}, 0, 1, 1. / 8},
		{graph.Scaling{Kind: graph.YarnScaling, Factor: 4, BetaFast: 32, BetaSlow: 1, OrigContext: 512}, 0, 1, 0.25},
		{graph.Scaling{Kind: graph.DynamicScaling, Factor: 2, OrigContext: 512}, 512, 1, 1},
		{graph.Scaling{Kind: graph.DynamicScaling, Factor: 2, OrigContext: 512}, 1024, 1, 1. / 3},
	} {
		f, _ := (&graph.Rotation{Dim: 64, Theta: 10000, Scaling: c.scaling}).Frequencies(c.length)
		n := len(f) - 1
		if !near(f[0], plain[0], c.first) || !near(f[n], plain[n], c.last) {
			t.Errorf("%v: first %g, last %g of the plain frequency; %g and %g are right", c.scaling.Kind, f[0]/plain[0], f[n]/plain[n], c.first, c.last)
		}
	}
}

func near(got, plain float32, ratio float64) bool {
	return math.Abs(float64(got/plain)/ratio-1) < 1e-5
}
