package cuda

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/pass"
)

// TestPlainSteps: steps without adapters, of a program that has slots for them, launch what a program without slots launches and compute the same to the
// last bit, before and after a step with adapters; and that one computes what the reference does.
func TestPlainSteps(t *testing.T) {
	d := gpu(t, 0)
	for _, format := range []string{"/BF16", "/Q4_0", "/Q8_0", ""} {
		b := graph.NewBuilder("layers", testkit.Lookup, graph.BF16, graph.BF16)
		g, err := b.Finish(layers(b, format, graph.HalfPairs, 64, 64, 0))
		if err != nil {
			t.Fatal(err)
		}
		w, err := testkit.RandomWeights(g, 7)
		if err != nil {
			t.Fatal(err)
		}
		steps := testkit.Steps{{9, 40, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}
		lim := testkit.LimitsFor(steps, 16)
		batches := testkit.Sequence(steps, lim, 61, false, 7)
		run := func(dev backend.Device, kernels pass.Kernels, slots int) (rows [][]float32, plain *graph.Graph) {
			t.Helper()
			g, err := pass.Run(g, pass.All, pass.Options{Kernels: kernels, Adapters: pass.Adapters{Slots: slots, Rank: testkit.CaseRank}})
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range batches {
				b.Adapters = nil
			}
			if slots > 0 {
				testkit.GiveAdapters(batches[2])
			}
			if rows, err = testkit.Outputs(g, dev, w, lim, batches); errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
				t.Skip("the source of one of its kernels is newer than the PTX; make ptx rebuilds that")
			} else if err != nil {
				t.Fatal(err)
			}
			return rows, g.Plain
		}
		want, _ := run(d, compile.Kernels{Device: d}, 0)
		got, plain := run(d, compile.Kernels{Device: d}, testkit.CaseSlots)
		if plain == nil {
			t.Errorf("%s: there is no graph of steps without adapters", format)
		}
		if os.Getenv("RIDGE_TEST_STANDIN") != "" { // its kernels compute nothing
			continue
		}
		for i := range want {
			if i != 2 && i != 3 && !slices.Equal(got[i], want[i]) { // step 3 reads the keys that step 2 stored
				t.Errorf("%s: step %d, without adapters, is not what a program without slots computes", format, i)
			}
		}
		exact, _ := run(ref.New(), nil, testkit.CaseSlots)
		for i := range exact {
			if e := testkit.WorstError(got[i], exact[i]); e > 4e-2 {
				t.Errorf("%s: step %d is off by %.3g", format, i, e)
			}
		}
	}
}
