package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestTreesAreAsLines: on a deterministic device the bits of a token's attention are the same in a token tree and one behind the other, wherever the rows of its branch lie
// and whatever else is in the tree, across key tiles, segments and windows; with every type of cache and under every tier.
func TestTreesAreAsLines(t *testing.T) {
	const vocab, seqPages, nodes = 97, 40, 24
	for _, tier := range []gemm.Tier{gemm.Generic, gemm.AVX2, gemm.AVXVNNI, gemm.AVX512, gemm.NEON, gemm.DotProd} {
		if !slices.Contains(tiers(), tier) {
			continue
		}
		d := testDevice(tier, 2)
		defer d.Close()
		d.deterministic = true
		for _, kind := range []struct {
			window int
			cached graph.Type
		}{{0, graph.F32}, {0, graph.F16}, {0, graph.BF16}, {0, graph.I8}, {19, graph.F16}, {301, graph.I8}} {
			if (tier == gemm.Generic || testing.Short()) && (kind.window > 0 || kind.cached != graph.F16) {
				continue // plain Go takes seconds, and so does what is emulated
			}
			g, w := attentionGraph(t, kind.window, kind.cached)
			for _, past := range []int{1, 57, 250, 500} {
				if tier == gemm.Generic && past > 57 {
					continue
				}
				t.Run(fmt.Sprintf("%s/window%d/%s/%d", tier, kind.window, kind.cached, past), func(t *testing.T) {
					testTree(t, g, w, d, past, nodes, seqPages, rand.New(rand.NewPCG(uint64(past), 1)))
				})
			}
		}
	}
}

// testTree compares a tree at random, behind so many tokens, with its branches as sequences.
func testTree(t *testing.T, g *graph.Graph, w testkit.Weights, d *Device, past, nodes, seqPages int, random *rand.Rand) {
	t.Helper()
	prompt := make([]int32, past)
	for i := range prompt {
		prompt[i] = int32(random.IntN(97))
	}
	tree, parents := make([]int32, nodes), make([]int, nodes)
	tokens, branch := [][]int32{slices.Concat(prompt, tree)}, [][]int{}
	masks := make([]uint64, nodes)
	for i := range tree {
		tree[i], parents[i] = int32(random.IntN(97)), random.IntN(max(i, 1))
		if i == 0 || random.IntN(2) == 0 {
			parents[i] = i - 1
		}
		masks[i] = 1 << i
		var path []int
		if p := parents[i]; p >= 0 {
			masks[i] |= masks[p]
			path = branch[p]
		}
		branch = append(branch, append(slices.Clone(path), i))
	}
	copy(tokens[0][past:], tree)
	var parts []part
	for i, path := range branch { // and each branch as a sequence of its own
		line := slices.Clone(prompt)
		for _, node := range path {
			line = append(line, tree[node])
		}
		tokens = append(tokens, line)
		parts = append(parts, part{1 + i, past, len(line)})
	}
	pages := make([][]int32, len(tokens))
	for s := range pages {
		for p := range seqPages {
			if pages[s] = append(pages[s], int32((p*len(tokens)+s)*7%(seqPages*len(tokens)))); p < past/16 {
				pages[s][p] = pages[0][p]
			}
		}
	}
	var rests []part // of the prompt, behind the pages that are computed once
	for s := range tokens[1:] {
		rests = append(rests, part{1 + s, past / 16 * 16, past})
	}
	lim := backend.Limits{Tokens: max(past, (nodes+16)*len(tokens)), Seqs: len(tokens), Logits: 1, Pages: seqPages * len(tokens), PageSize: 16, SeqPages: seqPages}
	verified := batchOf(tokens, pages, seqPages, part{0, past, past + nodes})
	verified.TreeLen, verified.Ancestors = []int32{int32(nodes)}, masks
	for i, path := range branch {
		verified.Positions[i] = int32(past + len(path) - 1)
	}
	lines := batchOf(tokens, pages, seqPages, parts...)
	outs, err := testkit.Outputs(g, d, w, lim, []*backend.Batch{batchOf(tokens, pages, seqPages, part{0, 0, past}), batchOf(tokens, pages, seqPages, rests...), verified, lines})
	if err != nil {
		t.Fatal(err)
	}
	width := g.Output.Axis.Len()
	for i := range nodes {
		want := outs[3][(int(lines.QStart[i+1])-1)*width:][:width]
		if got := outs[2][i*width:][:width]; !slices.Equal(got, want) {
			t.Errorf("row %d, with ancestors %b, is not what it is behind them: it begins with %g, and %g is right", i, masks[i], got[:4], want[:4])
		}
	}
}
