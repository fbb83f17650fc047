package cpu

import (
	"fmt"
	"testing"

	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestOps compares every case of the op table with the reference, for each type of cache and several thread counts.
func TestOps(t *testing.T) {
	for _, threads := range []int{1, 3} {
		dev := New(threads)
		defer dev.Close()
		for _, cache := range []graph.Type{graph.F32, graph.F16, graph.BF16} {
			for i, c := range testkit.Cases() {
				if cache != graph.F32 && c.Op != "Attention" {
					continue
				}
				t.Run(fmt.Sprintf("%d/%s/%s", threads, cache, c.Name), func(t *testing.T) {
					g, w, lim, batches, err := c.Build(graph.F32, cache, uint64(i))
					if err != nil {
						t.Fatal(err)
					}
					want, err := testkit.Outputs(g, ref.New(), w, lim, batches)
					if err != nil {
						t.Fatal(err)
					}
					got, err := testkit.Outputs(g, dev, w, lim, batches)
					if err != nil {
						t.Fatal(err)
					}
					for step := range want {
						if e := testkit.WorstError(got[step], want[step]); e > c.Tolerance {
							t.Errorf("step %d: relative error %.2g, at most %.2g is right", step, e, c.Tolerance)
						}
					}
				})
			}
		}
	}
}
