package testkit

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// latentCases attend to latent caches, whose values are a view of their keys: in the shape of DeepSeek's models, small and odd ones, rows
// written in two parts and in one.
func latentCases() []Case {
	var all []Case
	for _, c := range []struct {
		latentShape
		steps Steps
	}{
		{latentShape{4, 32, 16}, Steps{{17, 3, 0}, {1, 40, 2}, {1, 1, 1}}},
		{latentShape{16, 64, 32}, Steps{{150, 1}, {1, 1}, {33, 5}}},
		{latentShape{5, 40, 8}, Steps{{530, 3}, {1, 260}, {3, 1}}},
		{latentShape{3, 48, 0}, Steps{{33, 2}, {1, 1}}},
		{latentShape{16, 512, 64}, Steps{{33, 2}, {1, 17}, {1, 1}}},
	} {
		all = append(all, Case{Name: "Attention/latent/" + c.String(), Op: "Attention", Steps: c.steps, Tolerance: 1e-5, Graph: c.attend})
	}
	for _, c := range []struct {
		sparseShape
		steps Steps
	}{
		{sparseShape{16, 2, 32}, Steps{{17, 3, 0}, {1, 40, 2}, {1, 1, 1}}},
		{sparseShape{64, 4, 24}, Steps{{150, 1}, {1, 1}, {33, 5}}},
		{sparseShape{256, 3, 16}, Steps{{530, 3}, {1, 260}, {3, 1}}},
	} {
		all = append(all, Case{Name: "TopKeys/" + c.String(), Op: "TopKeys", Steps: c.steps, Tolerance: 1e-5, Graph: c.choose})
		all = append(all, Case{Name: "SparseAttention/" + c.String(), Op: "SparseAttention", Steps: c.steps, Tolerance: 1e-4, Graph: c.attend})
	}
	return all
}

// latentTreeCases do the same with token trees: rows that see more keys than are chosen, fewer, and more only with those of other branches.
func latentTreeCases() []Case {
	var all []Case
	for _, steps := range []Steps{{{3}, {7}}, {{40, 1, 2}, {20, 1, 5}, {1, 9, 64}}} {
		rows := LimitsFor(steps, 16).Tokens
		for _, c := range []latentShape{{4, 32, 16}, {16, 512, 64}} {
			all = append(all, Case{Name: fmt.Sprintf("Attention/latent/trees/%s/rows%d", c, rows), Op: "Attention", Steps: steps, Tolerance: 1e-5, Vary: Trees, Graph: c.attend})
		}
		for _, c := range []sparseShape{{4, 2, 32}, {16, 2, 32}, {30, 3, 24}, {64, 3, 64}} {
			all = append(all, Case{Name: fmt.Sprintf("TopKeys/trees/%s/rows%d", c, rows), Op: "TopKeys", Steps: steps, Tolerance: 1e-5, Vary: Trees, Graph: c.choose})
			all = append(all, Case{Name: fmt.Sprintf("SparseAttention/trees/%s/rows%d", c, rows), Op: "SparseAttention", Steps: steps, Tolerance: 1e-4, Vary: Trees, Graph: c.attend})
		}
	}
	return all
}

// latentShape is attention over a latent cache: so many heads, and numbers of the latent and of the rotated key.
type latentShape struct{ heads, rank, rope int }

func (c latentShape) String() string { return fmt.Sprintf("%d:%d+%d", c.heads, c.rank, c.rope) }

func (c latentShape) attend(b *graph.Builder) *graph.Value {
	latent, rope := axis("latent", 1, c.rank), axis("rope", 1, c.rope)
	cache := b.LatentCache("kv", 0, axis("latent", 1, c.rank+c.rope), latent)
	parts := []*graph.Value{feed(b, "latent", latent)}
	if c.rope > 0 {
		parts = append(parts, feed(b, "rope", rope))
	}
	cache = b.LatentWrite(cache, parts...)
	return b.Attention("y", feed(b, "q", axis("heads", c.heads, c.rank+c.rope)), cache, graph.Attention{Scale: 0.1})
}

// absorbedCases are latent attention with its absorbed matrices, of so many heads, in steps of prompts, of answers and of both, short and beyond a segment of keys.
func absorbedCases() []Case {
	var all []Case
	for _, c := range []struct {
		latentShape
		nope, value int
		steps       Steps
	}{
		{latentShape{4, 32, 16}, 32, 16, Steps{{47, 3, 60}, {1, 40, 2}, {50, 1, 33}}},
		{latentShape{16, 64, 8}, 48, 40, Steps{{150, 1}, {1, 1}, {33, 65}}},
		{latentShape{3, 72, 4}, 24, 32, Steps{{290, 2, 40}, {1, 250, 1}, {100, 1, 270}, {1, 1, 1}}},
		{latentShape{2, 128, 16}, 32, 32, Steps{{800, 1}, {60, 1}}},
	} {
		for _, f := range []quant.Format{quant.F32, quant.Q8_0} {
			if c.nope%f.Block() != 0 || c.rank%f.Block() != 0 {
				continue
			}
			tolerance := 1e-5
			if f != quant.F32 {
				tolerance = 1e-3 // they may be multiplied as F16
			}
			name := fmt.Sprintf("LatentAttention/%s/%d,%d/%s", c.latentShape, c.nope, c.value, f)
			all = append(all, Case{Name: name, Op: "LatentAttention", Fuse: []graph.Kind{graph.LatentAttention}, Steps: c.steps, Tolerance: tolerance, Graph: func(b *graph.Builder) *graph.Value {
				latent, heads := axis("latent", 1, c.rank), axis("heads", c.heads, 1)
				cache := b.LatentCache("kv", 0, axis("latent", 1, c.rank+c.rope), latent)
				cache = b.LatentWrite(cache, feed(b, "latent", latent), feed(b, "rope", axis("rope", 1, c.rope)))
				q := b.HeadLinear("ql", feed(b, "q", axis("heads", c.heads, c.nope+c.rope)), b.Stack("k/"+f.String(), heads, latent, axis("nope", 1, c.nope)), c.rope)
				y := b.Attention("attn", q, cache, graph.Attention{Scale: 0.1})
				return b.HeadLinear("y", y, b.Stack("v/"+f.String(), heads, axis("value", 1, c.value), latent), 0)
			}})
		}
	}
	return all
}

// sparseShape is an indexer that chooses topK keys, with so many heads of so many numbers.
type sparseShape struct{ topK, heads, size int }

func (c sparseShape) String() string { return fmt.Sprintf("%d/%dx%d", c.topK, c.heads, c.size) }

func (c sparseShape) choose(b *graph.Builder) *graph.Value {
	keys := axis("index", 1, c.size)
	cache := b.LatentWrite(b.LatentCache("index", 0, keys, keys), feed(b, "key", keys))
	return b.TopKeys("chosen", feed(b, "iq", axis("index_heads", c.heads, c.size)), feed(b, "iw", axis("index_heads", c.heads, 1)), cache, c.topK)
}

func (c sparseShape) attend(b *graph.Builder) *graph.Value {
	chosen, latent := c.choose(b), axis("latent", 1, 32)
	cache := b.LatentWrite(b.LatentCache("kv", 0, axis("latent", 1, 48), latent), feed(b, "latent", latent), feed(b, "rope", axis("rope", 1, 16)))
	return b.SparseAttention("y", feed(b, "q", axis("heads", 5, 48)), cache, chosen, 0.1)
}
