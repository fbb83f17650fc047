package cpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// attentionGraph is one layer of attention over tokens that are looked up: equal tokens at equal positions have equal
// queries, keys and values.
func attentionGraph(t *testing.T, window int, cached graph.Type) (*graph.Graph, testkit.Weights) {
	b := graph.NewBuilder("attention", testkit.Lookup, graph.F32, cached)
	vocab, kv, heads := graph.Axis{Name: "vocab", Count: 97, Size: 1}, graph.Axis{Name: "kv", Count: 2, Size: 64}, graph.Axis{Name: "heads", Count: 6, Size: 64}
	feed := func(name string, a graph.Axis) *graph.Value {
		return b.Embed(name, b.Weight(name+"_embd", vocab, a), 0)
	}
	cache := b.KVWrite(b.Cache(0, kv, kv, window), feed("k", kv), feed("v", kv))
	g, err := b.Finish(b.Attention("y", feed("q", heads), cache, graph.Attention{Scale: 0.1}))
	if err != nil {
		t.Fatal(err)
	}
	w, err := testkit.RandomWeights(g, 9)
	if err != nil {
		t.Fatal(err)
	}
	return g, w
}

// part is a stretch of a sequence computed in one step.
type part struct{ seq, from, to int }

// batchOf lays the parts out; page tables are the sequences'.
func batchOf(tokens, pages [][]int32, seqPages int, parts ...part) *backend.Batch {
	b := &backend.Batch{}
	b.Reset(1, seqPages)
	table := b.Table(0)
	for _, p := range parts {
		for i := p.from; i < p.to; i++ {
			b.Tokens = append(b.Tokens, tokens[p.seq][i])
			b.Positions = append(b.Positions, int32(i))
			table.Slots = append(table.Slots, pages[p.seq][i/16]*16+int32(i%16))
		}
		b.QStart = append(b.QStart, int32(len(b.Tokens)))
		b.KVLen, b.RopeLen = append(b.KVLen, int32(p.to)), append(b.RopeLen, int32(p.to))
		table.Pages = append(table.Pages, pages[p.seq]...)
	}
	return b
}

// TestAttentionExact: the bits of a token's attention do not depend on how the prompt was chunked, on what else is in the
// batch, on whether pages are shared with others, or on the number of threads; under every tier.
func TestAttentionExact(t *testing.T) {
	const length, common, seqPages = 580, 528, 37
	tokens, own, shared := make([][]int32, 3), make([][]int32, 3), make([][]int32, 3)
	for s := range tokens {
		for i := range length + 1 {
			tok := int32((i*i + 3*i) % 97)
			if i >= common {
				tok = (tok + int32(s)) % 97
			}
			tokens[s] = append(tokens[s], tok)
		}
		for p := range seqPages {
			own[s] = append(own[s], int32((s*seqPages+p)*7%(3*seqPages)))
			if shared[s] = append(shared[s], own[s][p]); p < common/16 {
				shared[s][p] = own[0][p]
			}
		}
	}
	lim := backend.Limits{Tokens: 3 * length, Seqs: 3, Logits: 1, Pages: 3 * seqPages, PageSize: 16, SeqPages: seqPages}
	last := part{1, length, length + 1}
	runs := map[string][]*backend.Batch{
		"chunks": {
			batchOf(tokens, own, seqPages, part{1, 0, 1}), batchOf(tokens, own, seqPages, part{1, 1, 300}),
			batchOf(tokens, own, seqPages, part{1, 300, 305}), batchOf(tokens, own, seqPages, part{1, 305, length + 1}),
		},
		"batched": {
			batchOf(tokens, own, seqPages, part{0, 0, 500}, part{1, 0, length}, part{2, 0, 3}),
			batchOf(tokens, own, seqPages, part{0, 500, 502}, last, part{2, 3, 4}),
		},
		"shared pages": {
			batchOf(tokens, shared, seqPages, part{0, 0, length}),
			batchOf(tokens, shared, seqPages, part{2, common, length}, part{1, common, length}),
			batchOf(tokens, shared, seqPages, part{0, length, length + 1}, part{2, length - 3, length + 1}, last),
		},
	}
	plain := []*backend.Batch{batchOf(tokens, own, seqPages, part{1, 0, length}), batchOf(tokens, own, seqPages, last)}
	for _, tier := range []gemm.Tier{gemm.Generic, gemm.AVX2, gemm.AVX512, gemm.NEON, gemm.DotProd} { // others attend as these do
		if !slices.Contains(tiers(), tier) {
			continue
		}
		one, three := testDevice(tier, 1), testDevice(tier, 3)
		defer one.Close()
		defer three.Close()
		for _, kind := range []struct {
			window int
			cached graph.Type
		}{{0, graph.F16}, {333, graph.F16}, {0, graph.I8}} {
			if kind.window > 0 && (tier == gemm.Generic || testing.Short()) {
				continue // plain Go takes seconds, and so does what is emulated
			}
			g, w := attentionGraph(t, kind.window, kind.cached)
			want := lastRow(t, g, w, one, lim, plain, 1)
			for name, run := range runs {
				t.Run(fmt.Sprintf("%s/window%d/%s/%s", name, kind.window, kind.cached, tier), func(t *testing.T) {
					got := lastRow(t, g, w, three, lim, run, 1)
					for i := range want {
						if want[i] != got[i] {
							t.Fatalf("number %d is %g, and %g when computed alone by one thread", i, got[i], want[i])
						}
					}
				})
			}
		}
	}
}

// lastRow runs the batches and returns the attention of sequence 1's last token, which is where its tokens end.
func lastRow(t *testing.T, g *graph.Graph, w testkit.Weights, d *Device, lim backend.Limits, batches []*backend.Batch, seq int) []float32 {
	t.Helper()
	outs, err := testkit.Outputs(g, d, w, lim, batches)
	if err != nil {
		t.Fatal(err)
	}
	b, out, width := batches[len(batches)-1], outs[len(outs)-1], g.Output.Axis.Len()
	for s := range b.Seqs() {
		if row := int(b.QStart[s+1]) - 1; b.KVLen[s] == 581 && (b.Seqs() == 1 || b.Table(0).Pages[s*b.SeqPages+lim.SeqPages-1] == int32((seq*lim.SeqPages+lim.SeqPages-1)*7%lim.Pages)) {
			return out[row*width : (row+1)*width]
		}
	}
	t.Fatal("no sequence reaches its end")
	return nil
}
