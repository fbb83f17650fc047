package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/graph"
)

// TestRecurrent: a model with recurrent layers says the same whether each request is computed by itself or beside others, whatever is shared,
// continued, preempted or swapped out meanwhile.
func TestRecurrent(t *testing.T) {
	lim := backend.Limits{Tokens: 40, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 16}
	alone := lim
	alone.Seqs, alone.Logits = 1, 3
	names := []string{"qwen3.5", "mamba", "lfm2", "nemotron-h", "falcon-h1"}
	if testing.Short() {
		names = names[:1]
	}
	for i, name := range names {
		dir := filepath.Join("../../shared/reference/architectures", name)
		if _, err := os.Stat(dir); err != nil {
			t.Skip("the reference models are not here:", err)
		}
		open := func() backend.Device {
			d, err := cpu.New(cpu.Options{Threads: 1, Deterministic: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return d
		}
		var preemptions, swaps int64 // with an index, states that are kept may leave room for fewer requests at a time, which then preempt nothing
		want := talk(t, windowedAt(t, dir, open(), graph.F16, alone, keepAll, Options{Index: "none"}))
		for _, index := range []string{[]string{"radix", "hash"}[i%2], "none"} {
			for _, how := range []keep{windows, tightly, swapped} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, index, how), func(t *testing.T) {
					e := windowedAt(t, dir, open(), graph.F16, lim, how, Options{Index: index})
					got := talk(t, e)
					for i := range want {
						if !slices.Equal(got[i], want[i]) {
							t.Errorf("answer %d is %v, and by itself %v", i, got[i], want[i])
						}
					}
					e.publish()
					s := e.Stats()
					if s.PagesUsed != 0 || e.pages.Available() != e.pages.Total() {
						t.Errorf("pages are in use after the last request: %v of %v available", e.pages.Available(), e.pages.Total())
					}
					states := 0
					for g, recurrent := range e.pages.recurrent {
						if recurrent {
							states += e.pages.Total()[g]
						}
					}
					if e.publish(); s.States != states || e.Stats().States != states || e.Stats().StatesKept != s.StatesKept {
						t.Errorf("%d states are there, %d kept, and a step later %d and %d; there are %d", s.States, s.StatesKept, e.Stats().States, e.Stats().StatesKept, states)
					}
					if index != "none" && s.Found == 0 {
						t.Error("nothing was found in the cache")
					}
					if how == tightly {
						preemptions += int64(s.Preemptions)
					}
					swaps += int64(s.Swaps)
				})
			}
		}
		if preemptions == 0 || swaps == 0 {
			t.Errorf("of %s, %d requests were preempted and %d swapped out in tight memory; some of both must be", name, preemptions, swaps)
		}
	}
}
