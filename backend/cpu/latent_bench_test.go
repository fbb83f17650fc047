package cpu

import (
	"fmt"
	"testing"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// BenchmarkLatentAttention computes a part of a prompt behind so many tokens, in the shape of DeepSeek-V2-Lite: with keys and values made of the latents, and with
// absorbed matrices, as deterministic devices do.
func BenchmarkLatentAttention(b *testing.B) {
	for _, c := range []struct{ past, tokens int }{{0, 512}, {2048, 512}, {4096, 512}, {4096, 64}} {
		for name, deterministic := range map[string]bool{"by cost": false, "absorbed": true} {
			b.Run(fmt.Sprintf("%d behind %d/%s", c.tokens, c.past, name), func(b *testing.B) {
				latentStep(b, c.past, c.tokens, deterministic)
			})
		}
	}
}

func latentStep(b *testing.B, past, tokens int, deterministic bool) {
	axis := func(name string, count, size int) graph.Axis { return graph.Axis{Name: name, Count: count, Size: size} }
	steps := testkit.Steps{{tokens}}
	if past > 0 {
		steps = testkit.Steps{{past}, {tokens}}
	}
	latent, heads, hidden := axis("latent", 1, 512), axis("heads", 16, 1), axis("hidden", 32, 1)
	c := testkit.Case{Name: "bench", Op: "LatentAttention", Fuse: []graph.Kind{graph.LatentAttention}, Steps: steps, Graph: func(b *graph.Builder) *graph.Value {
		x := b.Embed("x", b.Weight("embd/F32", axis("vocab", 64, 1), hidden), 0)
		made := func(name string, a graph.Axis) *graph.Value {
			return b.Linear(name, x, b.Weight(name+"/F32", a, hidden), nil)
		}
		cache := b.LatentWrite(b.LatentCache("kv", 0, axis("latent", 1, 576), latent), made("latent", latent), made("rope", axis("rope", 1, 64)))
		q := b.HeadLinear("ql", made("q", axis("heads", 16, 192)), b.Stack("k/BF16", heads, latent, axis("nope", 1, 128)), 64)
		y := b.Attention("attn", q, cache, graph.Attention{Scale: 0.1})
		return b.HeadLinear("y", y, b.Stack("v/BF16", heads, axis("value", 1, 128), latent), 0)
	}}
	g, w, lim, batches, err := c.Build(graph.F32, graph.F16, 1)
	if err != nil {
		b.Fatal(err)
	}
	d, err := New(Options{Threads: 2, Deterministic: deterministic})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	prog, err := compile.Compile(g, d, w, lim)
	if err != nil {
		b.Fatal(err)
	}
	defer prog.Close()
	for _, batch := range batches {
		if err := prog.Run(batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for range b.N {
		if err := prog.Run(batches[len(batches)-1]); err != nil {
			b.Fatal(err)
		}
	}
}
