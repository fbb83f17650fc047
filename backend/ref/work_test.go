package ref

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestDeclaredWork: the work counted while the reference runs is the work
// that the graph declares, to the last byte and operation.
func TestDeclaredWork(t *testing.T) {
	seen := map[string]bool{}
	for i, c := range testkit.Cases() {
		seen[c.Op] = true
		cache := graph.F16
		if i%3 == 0 && strings.HasPrefix(c.Name, "Attention/8:2x64/") {
			cache = graph.I4
		}
		t.Run(c.Name, func(t *testing.T) {
			g, w, lim, batches, err := c.Build(graph.F32, cache, uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			dev := New()
			if c.Vary != nil && (c.Op == "Attention" || c.Op == "TopKeys" || c.Op == "SparseAttention" || c.Op == "PartialAttention") {
				t.Skip("scores that a token tree masks are declared, since devices compute them")
			}
			if c.Op == "AddNorm" || len(c.Fuse) > 0 {
				t.Skip("the reference runs it as the ops it stands for")
			}
			var declared graph.Work
			for _, b := range batches {
				var s graph.Step
				b.Step(&s)
				declared = declared.Plus(g.Work(&s))
			}
			if _, err := testkit.Outputs(g, dev, w, lim, batches); err != nil {
				t.Fatal(err)
			}
			counted := dev.Counted()
			if (c.Op == "MoE" || c.Op == "AdaptedMoE") && lim.Tokens > 1 { // the experts that several rows reach are declared as an expectation; see TestExpertsReached
				counted.WeightBytes = declared.WeightBytes
			}
			if c.Op == "SparseAttention" && counted.CacheRead > declared.CacheRead/2 && counted.CacheRead < 2*declared.CacheRead { // how many rows several queries choose between them depends on the data
				counted.CacheRead = declared.CacheRead
			}
			if counted != declared {
				t.Errorf("declared %+v\ncounted  %+v", declared, counted)
			}
		})
	}
	for _, op := range []string{"Linear", "Embed", "RMSNorm", "LayerNorm", "RoPE", "Act", "ActMul", "Add", "Softcap", "SelectRows", "Attention", "AddNorm", "MoE", "Route", "GateRows", "HeadLinear", "TopKeys", "SparseAttention", "LoRA", "LoRAEmbed", "AdaptedMoE", "LoRAHeads", "ExpandStreams", "MixStreams", "AddToStreams", "MeanStreams", "Columns", "ScaleColumns", "GaussianTopK", "RowSums", "PartialAttention", "KimiDelta", "RoundRows", "AddOutliers"} {
		if !seen[op] {
			t.Errorf("the table has no case of %s", op)
		}
	}
}

// TestExpertsReached: the bytes that blocks of experts declare to read are those read on average over many steps.
func TestExpertsReached(t *testing.T) {
	var declared, counted int64
	for _, c := range testkit.Cases() {
		// One row reaches as many experts as it takes, and more than 8 rows reach all of them.
		if rows := testkit.LimitsFor(c.Steps, 16).Tokens; c.Op != "MoE" || rows < 2 || rows > 8 {
			continue
		}
		g, w, lim, _, err := c.Build(graph.F32, graph.F16, 1)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(6) {
			dev, batches := New(), c.Batches(lim, seed)
			if _, err := testkit.Outputs(g, dev, w, lim, batches); err != nil {
				t.Fatal(err)
			}
			counted += dev.Counted().WeightBytes
			for _, b := range batches {
				var s graph.Step
				b.Step(&s)
				declared += g.Work(&s).WeightBytes
			}
		}
	}
	if off := float64(counted)/float64(declared) - 1; off < -0.05 || off > 0.05 {
		t.Errorf("%d bytes of weights declared, %d counted, %.1f %% off", declared, counted, 100*off)
	}
}
