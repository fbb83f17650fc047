package testkit

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// latentCases attend to latent caches, whose values are a view of their keys: in the shape of DeepSeek's models, small and odd ones, rows
// written in two parts and in one.
func latentCases() []Case {
	var all []Case
	for _, c := range []struct {
		heads, rank, rope int
		steps             Steps
	}{
		{4, 32, 16, Steps{{17, 3, 0}, {1, 40, 2}, {1, 1, 1}}},
		{16, 64, 32, Steps{{150, 1}, {1, 1}, {33, 5}}},
		{5, 40, 8, Steps{{530, 3}, {1, 260}, {3, 1}}},
		{3, 48, 0, Steps{{33, 2}, {1, 1}}},
		{16, 512, 64, Steps{{33, 2}, {1, 17}, {1, 1}}},
	} {
		all = append(all, Case{
			Name: fmt.Sprintf("Attention/latent/%d:%d+%d", c.heads, c.rank, c.rope), Op: "Attention", Steps: c.steps, Tolerance: 1e-5,
			Graph: func(b *graph.Builder) *graph.Value {
				latent, rope := axis("latent", 1, c.rank), axis("rope", 1, c.rope)
				cache := b.LatentCache("kv", 0, axis("latent", 1, c.rank+c.rope), latent)
				parts := []*graph.Value{feed(b, "latent", latent)}
				if c.rope > 0 {
					parts = append(parts, feed(b, "rope", rope))
				}
				cache = b.LatentWrite(cache, parts...)
				return b.Attention("y", feed(b, "q", axis("heads", c.heads, c.rank+c.rope)), cache, graph.Attention{Scale: 0.1})
			},
		})
	}
	for _, c := range []struct {
		topK, heads, size int
		steps             Steps
	}{
		{16, 2, 32, Steps{{17, 3, 0}, {1, 40, 2}, {1, 1, 1}}},
		{64, 4, 24, Steps{{150, 1}, {1, 1}, {33, 5}}},
		{256, 3, 16, Steps{{530, 3}, {1, 260}, {3, 1}}},
	} {
		index := func(b *graph.Builder) *graph.Value {
			keys := axis("index", 1, c.size)
			cache := b.LatentWrite(b.LatentCache("index", 0, keys, keys), feed(b, "key", keys))
			return b.TopKeys("chosen", feed(b, "iq", axis("index_heads", c.heads, c.size)), feed(b, "iw", axis("index_heads", c.heads, 1)), cache, c.topK)
		}
		name := fmt.Sprintf("%d/%dx%d", c.topK, c.heads, c.size)
		all = append(all, Case{Name: "TopKeys/" + name, Op: "TopKeys", Steps: c.steps, Tolerance: 1e-5, Graph: index})
		all = append(all, Case{
			Name: "SparseAttention/" + name, Op: "SparseAttention", Steps: c.steps, Tolerance: 1e-4,
			Graph: func(b *graph.Builder) *graph.Value {
				chosen, latent := index(b), axis("latent", 1, 32)
				cache := b.LatentWrite(b.LatentCache("kv", 0, axis("latent", 1, 48), latent), feed(b, "latent", latent), feed(b, "rope", axis("rope", 1, 16)))
				return b.SparseAttention("y", feed(b, "q", axis("heads", 5, 48)), cache, chosen, 0.1)
			},
		})
	}
	return all
}
