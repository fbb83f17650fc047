package pass_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/pass"
)

// TestPartitionUneven: a feed-forward block of 2,880 numbers in blocks of 32 (gpt-oss) has 90 blocks, which 4 and 8 devices share as
// equally as whole blocks allow; the matrix before is cut at the same numbers, and the first rank has the most, since it is the one that is priced.
func TestPartitionUneven(t *testing.T) {
	hidden, ffn := graph.Axis{Name: "hidden", Count: 64, Size: 1}, graph.Axis{Name: "ffn", Count: 2880, Size: 1}
	b := graph.NewBuilder("test", testkit.Lookup, graph.F32, graph.F32)
	x := b.Embed("x", b.Weight("embd", hidden, hidden), 0)
	b.Layer(0)
	up := b.Linear("up", x, b.Weight("up/MXFP4", ffn, hidden), nil)
	g, err := b.Finish(b.Linear("down", up, b.Weight("down/MXFP4", hidden, ffn), nil))
	if err != nil {
		t.Fatal(err)
	}
	for ranks, want := range map[int]string{4: "[736 704 736 704]", 8: "[384 352 352 352 384 352 352 352]", 2: "[1440 1440]"} {
		var widths []int
		for rank := range ranks {
			part, err := pass.Partition(g, pass.Options{Layout: pass.Layout{Tensor: ranks, Pipeline: 1, Data: 1}, Rank: pass.Rank{Tensor: rank}})
			if err != nil {
				t.Fatal(err)
			}
			up, down := part.Nodes[1].Weights[0], part.Nodes[2].Weights[0]
			if up.Out != down.In || down.In.Len()%32 != 0 || down.In.Shards != ranks {
				t.Errorf("rank %d of %d multiplies by %v, then by %v", rank, ranks, up.Out, down.In)
			}
			widths = append(widths, down.In.Len())
		}
		if got := fmt.Sprint(widths); got != want {
			t.Errorf("%d ranks have %s, want %s", ranks, got, want)
		}
	}
	many := pass.Layout{Tensor: 91, Pipeline: 1, Data: 1}
	if _, err := pass.Partition(g, pass.Options{Layout: many}); err == nil || !strings.Contains(err.Error(), "2880 ffn in blocks of 32 cannot be divided among 91 devices") {
		t.Errorf("91 ranks: %v", err)
	}
}
