package testkit

import (
	"fmt"
	"math/rand/v2"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// batchCases are what few batches have: token trees, positions on three axes, rows given as embeddings.
func batchCases() []Case {
	var all []Case
	trees := []Steps{
		{{3}, {7}},
		{{40, 1, 2}, {20, 1, 5}, {1, 9, 64}},
		{{250, 530, 3}, {64, 30, 1}, {5, 64, 40}}, // across the tiles in which devices cut the keys
	}
	for _, h := range []struct{ heads, kv, size int }{{4, 2, 16}, {8, 2, 64}, {6, 1, 80}, {4, 2, 128}, {2, 1, 256}} {
		for _, window := range []int{0, 3, 70} {
			for i, steps := range trees {
				if i == 2 && h.size != 16 && (h.size != 128 || window == 3) {
					continue // the reference takes its time
				}
				all = append(all, Case{
					Name: fmt.Sprintf("Attention/trees/%d:%dx%d/window%d/steps%d", h.heads, h.kv, h.size, window, i), Op: "Attention", Steps: steps, Window: window,
					Tolerance: 1e-5, Vary: Trees,
					Graph: func(b *graph.Builder) *graph.Value {
						kv := axis("kv", h.kv, h.size)
						cache := b.KVWrite(b.Cache(0, kv, kv, window), feed(b, "k", kv), feed(b, "v", kv))
						q, o := feed(b, "q", axis("heads", h.heads, h.size)), graph.Attention{Scale: 0.2, Softcap: 2 * float64(i%2)}
						if i == 1 {
							return b.Attention("y", q, cache, o, b.Vector("sinks", axis("heads", h.heads, 1)))
						}
						return b.Attention("y", q, cache, o)
					},
				})
			}
		}
	}
	for _, r := range []graph.Rotation{
		{Name: "a", Pairing: graph.HalfPairs, Dim: 32, Theta: 10000, Sections: [3]int{4, 6, 6}},
		{Name: "a", Pairing: graph.HalfPairs, Dim: 32, Theta: 10000, Sections: [3]int{6, 5, 5}, Interleaved: true},
		{Name: "a", Pairing: graph.AdjacentPairs, Dim: 24, Theta: 500, Sections: [3]int{2, 4, 6}, Scaling: graph.Scaling{Kind: graph.DynamicScaling, Factor: 2, OrigContext: 8}},
	} {
		for _, axes := range []func(*backend.Batch, *rand.Rand){nil, threeAxes} {
			for _, steps := range rowSteps() {
				all = append(all, Case{
					Name: fmt.Sprintf("RoPE/%s/%t/rows%d", r.String(), axes != nil, LimitsFor(steps, 16).Tokens), Op: "RoPE", Steps: steps, Tolerance: 1e-5, Vary: axes,
					Graph: func(b *graph.Builder) *graph.Value { return b.RoPE("y", feed(b, "x", axis("heads", 3, 32)), &r) },
				})
			}
		}
	}
	for _, steps := range []Steps{{{1}, {2}, {1}}, {{5, 3}, {33, 1}}, {{1, 1, 1}, {1, 70, 1}}} {
		all = append(all, Case{
			Name: fmt.Sprintf("Embed/embeddings/rows%d", LimitsFor(steps, 16).Tokens), Op: "Embed", Steps: steps, Tolerance: 1e-6, Vary: someEmbeddings(96),
			Graph: func(b *graph.Builder) *graph.Value {
				hidden := axis("hidden", 96, 1)
				x := b.Embed("e", b.Weight("t_embd/Q8_0", axis("vocab", tableVocab, 1), hidden), 3.5)
				return b.Add("y", x, feed(b, "x", hidden)) // a second lookup of ids is none of the input
			},
		})
	}
	return all
}

// Trees makes token trees of the last rows of most sequences: the parent of each row is any row before it.
func Trees(b *backend.Batch, rnd *rand.Rand) {
	b.Ancestors = make([]uint64, len(b.Tokens))
	for s := range b.Seqs() {
		n := min(int(b.QStart[s+1]-b.QStart[s]), backend.MaxTree)
		if n -= rnd.IntN(min(n, 3)); rnd.IntN(4) == 0 {
			n = 0
		}
		b.TreeLen = append(b.TreeLen, int32(n))
		mask := b.Ancestors[int(b.QStart[s+1])-n:]
		for i := range n {
			mask[i] = 1 << i
			if i > 0 {
				mask[i] |= mask[i-1-rnd.IntN(min(i, 6))]
			}
		}
	}
}

// threeAxes gives rows positions of their own on each axis.
func threeAxes(b *backend.Batch, rnd *rand.Rand) {
	for range (backend.PositionAxes - 1) * len(b.Tokens) {
		b.Positions = append(b.Positions, rnd.Int32N(300))
	}
}

// someEmbeddings gives half of the rows as embeddings of a width.
func someEmbeddings(width int) func(b *backend.Batch, rnd *rand.Rand) {
	return func(b *backend.Batch, rnd *rand.Rand) {
		for r := range b.Tokens {
			if rnd.IntN(2) == 0 {
				continue
			}
			b.EmbeddingRows = append(b.EmbeddingRows, int32(r))
			for range width {
				b.Embeddings = append(b.Embeddings, float32(rnd.NormFloat64()))
			}
		}
	}
}
