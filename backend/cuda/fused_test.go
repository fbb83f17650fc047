package cuda

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// layer builds the nodes of one layer of a test's or a benchmark's model; format, "/Q4_0", say, is behind the names of its matrices.
type layer struct {
	*graph.Builder
	number int
	format string
}

// at is the name of one of the layer's nodes.
func (l layer) at(name string) string { return fmt.Sprintf("%d.%s", l.number, name) }

// linear is x [rows, in] times a matrix [out, in].
func (l layer) linear(name string, x *graph.Value, out graph.Axis) *graph.Value {
	return l.Linear(l.at(name), x, l.Weight(l.at(name)+l.format, out, x.Axis), nil)
}

// addNorm is x + y and its normalisation.
func (l layer) addNorm(name string, x, y *graph.Value) (sum, norm *graph.Value) {
	out := l.Emit(l.at(name), graph.AddNorm{Eps: 1e-5}, []*graph.Value{x, y}, l.Vector(l.at(name), x.Axis))
	return out[0], out[1]
}

// layers is a decoder with all that is fused but experts: q, k and v; RoPE and the store; gate, up and function; products and norms. format, "/Q4_0", say, is
// that of its matrices.
func layers(b *graph.Builder, format string, pairing graph.Pairing, headSize, dim, window int) *graph.Value {
	axis := func(name string, count, size int) graph.Axis { return graph.Axis{Name: name, Count: count, Size: size} }
	vocab, hidden, heads, kv, ffn := axis("vocab", 61, 1), axis("hidden", 256, 1), axis("heads", 4, headSize), axis("kv", 2, headSize), axis("ffn", 480, 1)
	if strings.HasSuffix(format, "_K") || format == "/INT4" || format == "/BF16" {
		ffn.Count = 512 // their blocks
	}
	r := &graph.Rotation{Name: "angles", Pairing: pairing, Dim: dim, Theta: 10000}
	x := b.Embed("embd", b.Weight("t_embd", vocab, hidden), 0)
	n := b.RMSNorm("norm", x, b.Vector("norm", hidden), 1e-5)
	for i := range 2 {
		l := layer{b, i, format}
		at, linear, addNorm := l.at, l.linear, l.addNorm
		q, k, v := linear("q", n, heads), linear("k", n, kv), linear("v", n, kv)
		q, k = b.RoPE(at("q.rot"), q, r), b.RoPE(at("k.rot"), k, r)
		cache := b.KVWrite(b.Cache(i, kv, kv, window), k, v)
		o := b.Attention(at("attn"), q, cache, graph.Attention{Scale: 0.125})
		x, n = addNorm("sum", x, linear("o", o, hidden))
		gate, up := linear("gate", n, ffn), linear("up", n, ffn)
		x, n = addNorm("out", x, linear("down", b.ActMul(at("act"), gate, up, graph.Silu), hidden))
	}
	return b.Linear("logits", b.SelectRows("selected", n), b.Weight("head", vocab, hidden), nil)
}

// expertLayers is a decoder of experts whose attention normalises its heads. Rows pass all experts, so that two right answers do not part.
func expertLayers(b *graph.Builder, format string) *graph.Value {
	axis := func(name string, count, size int) graph.Axis { return graph.Axis{Name: name, Count: count, Size: size} }
	vocab, hidden, heads, kv, ffn, each := axis("vocab", 61, 1), axis("hidden", 256, 1), axis("heads", 4, 128), axis("kv", 2, 128), axis("ffn", 512, 1), axis("experts", 4, 1)
	r := &graph.Rotation{Name: "angles", Pairing: graph.HalfPairs, Dim: 128, Theta: 10000}
	x := b.Embed("embd", b.Weight("t_embd", vocab, hidden), 0)
	n := b.RMSNorm("norm", x, b.Vector("norm", hidden), 1e-5)
	for i := range 3 {
		l := layer{b, i, format}
		at, linear, addNorm := l.at, l.linear, l.addNorm
		headNorm := func(name string, x *graph.Value) *graph.Value {
			return b.Emit(at(name), graph.RMSNorm{Eps: 1e-6, PerGroup: true}, []*graph.Value{x}, b.Vector(at(name), axis("head", 1, 128)))[0]
		}
		q, k, v := linear("q", n, heads), linear("k", n, kv), linear("v", n, kv)
		q, k = headNorm("q.norm", q), headNorm("k.norm", k)
		q, k = b.RoPE(at("q.rot"), q, r), b.RoPE(at("k.rot"), k, r)
		cache := b.KVWrite(b.Cache(i, kv, kv, 0), k, v)
		o := b.Attention(at("attn"), q, cache, graph.Attention{Scale: 0.0884})
		x, n = addNorm("sum", x, linear("o", o, hidden))
		scores := b.Linear(at("router"), n, b.Weight(at("router")+"/BF16", each, hidden), b.Vector(at("router.bias"), each))
		of := func(s string, out, in graph.Axis) *graph.Weight {
			return b.Stack(fmt.Sprintf("%d.%s%s", i, s, format), each, out, in)
		}
		weights := []*graph.Weight{of("gate", ffn, hidden), of("up", ffn, hidden), of("down", hidden, ffn)}
		x, n = addNorm("out", x, b.MoE(at("experts"), n, scores, graph.MoE{Experts: each.Count, TopK: each.Count}, weights))
	}
	return b.Linear("logits", b.SelectRows("selected", n), b.Weight("head", vocab, hidden), nil)
}

// fusedTests is whole layers, fused, over prompts, chunks, mixed steps and recorded decoding; with -short, as the sanitizer
// has it, a few steps, each layer with a cache of one type.
var fusedTests = sync.OnceValues(func() (all []*opTest, err error) {
	steps := testkit.Steps{{150, 1, 20}, {1, 1, 1}, {1, 9, 1}, {1, 37, 0}, {1, 1, 1}, {40, 1, 1}, {12, 8, 12}, {1, 1, 1}, {1, 0, 0}, {1, 0, 1}, {1, 1, 0}, {0, 1, 0}}
	if testing.Short() {
		steps = steps[:3]
	}
	for i, c := range []struct {
		pairing               graph.Pairing
		headSize, dim, window int
		format                string
	}{
		{graph.HalfPairs, 64, 64, 0, ""}, {graph.AdjacentPairs, 128, 128, 0, ""}, {graph.HalfPairs, 128, 64, 50, ""}, {graph.AdjacentPairs, 80, 80, 0, ""},
		{graph.HalfPairs, 256, 256, 0, ""}, {graph.HalfPairs, 128, 128, 0, "/Q4_0"}, {graph.HalfPairs, 128, 128, 0, "/Q8_0"},
		{graph.HalfPairs, 128, 128, 0, "/Q4_1"}, {graph.HalfPairs, 128, 128, 0, "/MXFP4"}, {graph.HalfPairs, 128, 128, 0, "/Q4_K"}, {graph.HalfPairs, 128, 128, 0, "/Q6_K"},
		{graph.HalfPairs, 128, 128, 0, "/FP8"}, {graph.HalfPairs, 128, 128, 0, "/INT8"}, {graph.HalfPairs, 128, 128, 0, "/INT4"}, {graph.HalfPairs, 128, 128, 0, "/BF16"},
	} {
		op := fmt.Sprint("heads of ", c.headSize)
		if c.format != "" {
			op = c.format[1:]
		}
		caches := []graph.Type{graph.BF16, graph.F16, graph.I8, graph.F8}
		if testing.Short() {
			caches = caches[i%len(caches):][:1]
		}
		for _, cache := range caches {
			b := graph.NewBuilder("layers", testkit.Lookup, graph.BF16, cache)
			files, err := b.Finish(layers(b, c.format, c.pairing, c.headSize, c.dim, c.window))
			if err != nil {
				return nil, err
			}
			var o pass.Options
			if c.format == "/BF16" {
				o.Weights = quant.INT4 // the device rounds them
			}
			g, err := pass.Run(files, "actquant", o) // and what meets FP8 and INT8
			if err != nil {
				return nil, err
			}
			lim := testkit.LimitsFor(steps, 16)
			tolerance := 4e-2
			if c.format == "/FP8" || c.format == "/INT8" {
				tolerance = 1e-1 // a number of BF16 that differs by a rounding may become the next of few codes
			}
			all = append(all, &opTest{fmt.Sprintf("%+v %s", c, cache), op, g, files, 7, nil, lim, testkit.Sequence(steps, lim, 61, false, 7), nil, tolerance, true})
		}
	}
	for _, format := range []string{"/BF16", "/Q4_0", "/MXFP4"} {
		b := graph.NewBuilder("expert layers", testkit.Lookup, graph.BF16, graph.BF16)
		g, err := b.Finish(expertLayers(b, format))
		if err != nil {
			return nil, err
		}
		lim := testkit.LimitsFor(steps, 16)
		all = append(all, &opTest{"experts" + format, "experts", g, g, 7, nil, lim, testkit.Sequence(steps, lim, 61, false, 7), nil, 4e-2, true})
	}
	return all, nil
})

// TestFused compares them with the reference, which runs the graph as it was built.
func TestFused(t *testing.T) {
	for _, arch := range archs {
		t.Run(fmt.Sprint("arch", arch), func(t *testing.T) {
			d := gpu(t, arch)
			all, err := fusedTests()
			if err != nil {
				t.Fatal(err)
			}
			compareAll(t, d, all)
		})
	}
}

// TestFusedTimes: fewer launches than operations, each of which has a time.
func TestFusedTimes(t *testing.T) {
	d := gpu(t, 0)
	b := graph.NewBuilder("layers", testkit.Lookup, graph.BF16, graph.BF16)
	plain, err := b.Finish(layers(b, "", graph.HalfPairs, 64, 64, 0))
	if err != nil {
		t.Fatal(err)
	}
	g, err := pass.Fuse(plain, pass.Options{Kernels: compile.Kernels{Device: d}})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Nodes) >= len(plain.Nodes) {
		t.Errorf("nothing is fused:\n%s", g)
	}
	w, err := testkit.RandomWeights(g, 7)
	if err != nil {
		t.Fatal(err)
	}
	steps := testkit.Steps{{16}, {1}}
	lim := testkit.LimitsFor(steps, 16)
	p, err := compile.Compile(g, d, w, lim)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, batch := range testkit.Sequence(steps, lim, 61, false, 7) {
		took := make([]time.Duration, len(p.Graph.Nodes))
		if err := p.RunTimed(batch, took); err != nil {
			t.Fatal(err)
		}
		if slices.Min(took) <= 0 {
			t.Errorf("step %d: nodes took %v", i, took)
		}
	}
}
