package ref

import (
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestDeclaredWork holds every op to what it says of itself: the work counted while the reference runs is the work
// that the graph declares, to the last byte and operation.
func TestDeclaredWork(t *testing.T) {
	seen := map[string]bool{}
	for i, c := range testkit.Cases() {
		seen[c.Op] = true
		t.Run(c.Name, func(t *testing.T) {
			g, w, lim, batches, err := c.Build(graph.F32, graph.F16, uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			dev := New()
			if c.Op == "AddNorm" {
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
			if c.Op == "MoE" && counted.WeightBytes != declared.WeightBytes { // which experts rows take is declared as a chance, where there is one
				if off := float64(counted.WeightBytes) / float64(declared.WeightBytes); lim.Tokens == 1 || off < 0.6 || off > 1.4 {
					t.Errorf("%d bytes of weights declared, %d counted", declared.WeightBytes, counted.WeightBytes)
				}
				counted.WeightBytes = declared.WeightBytes
			}
			if counted != declared {
				t.Errorf("declared %+v\ncounted  %+v", declared, counted)
			}
		})
	}
	for _, op := range []string{"Linear", "Embed", "RMSNorm", "LayerNorm", "RoPE", "Act", "ActMul", "Add", "Softcap", "Pick", "Attention", "AddNorm", "MoE"} {
		if !seen[op] {
			t.Errorf("the table has no case of %s", op)
		}
	}
}
