package engine

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/graph"
)

// TestLatent: models with latent caches, and with those of indexers beside them, say the same to each request alone as to many, with
// prompts in chunks, beginnings in common, too few pages and requests swapped out.
func TestLatent(t *testing.T) {
	lim := backend.Limits{Tokens: 40, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 16}
	alone := lim
	alone.Seqs, alone.Logits = 1, 3
	names := []string{"deepseek-v3.2", "deepseek-v3-yarn"}
	if testing.Short() {
		names = names[:1]
	}
	for _, name := range names {
		dir := "../../shared/reference/architectures/" + name
		if _, err := os.Stat(dir); err != nil {
			t.Skip("the reference models in ../shared are not here")
		}
		on := func(lim backend.Limits, how keep, o Options) *stepped {
			dev, err := cpu.New(cpu.Options{Threads: 1, Deterministic: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { dev.Close() })
			return windowedAt(t, dir, dev, graph.F16, lim, how, o)
		}
		want := talk(t, on(alone, keepAll, Options{Index: "none"}))
		for _, how := range []keep{tightly, swapped} {
			t.Run(fmt.Sprintf("%s/%d", name, how), func(t *testing.T) {
				e := on(lim, how, Options{})
				for i, got := range talk(t, e) {
					if !slices.Equal(got, want[i]) {
						t.Errorf("answer %d is %v, and alone %v", i, got, want[i])
					}
				}
				if s := e.Stats(); s.Found == 0 || how == tightly && s.Preemptions == 0 || how == swapped && s.Swaps == 0 {
					t.Errorf("nothing was found or nothing preempted: %+v", s)
				}
			})
		}
	}
}
