package cuda

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestSamples has the reference and the GPU answer three prompts, each step given to the device before anybody has seen the
// tokens of the step before; with -short, as the sanitizer has it, a few steps.
func TestSamples(t *testing.T) {
	for _, arch := range archs {
		t.Run(fmt.Sprint("arch", arch), func(t *testing.T) {
			d := gpu(t, arch)
			want, got := answers(t, ref.New()), answers(t, d)
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("draw %d: the GPU's tokens are %v, the reference's %v", i, got[i], want[i])
				}
			}
		})
	}
}

// answers is the tokens of four draws, of which two share a row, step by step.
func answers(t *testing.T, dev backend.Device) (tokens [4][]int32) {
	t.Helper()
	b := graph.NewBuilder("layers", testkit.Lookup, graph.F32, graph.F32)
	g, err := b.Finish(layers(b, "", graph.HalfPairs, 64, 64, 0))
	if err != nil {
		t.Fatal(err)
	}
	w, err := testkit.RandomWeights(g, 7)
	if err != nil {
		t.Fatal(err)
	}
	steps := testkit.Steps{{5, 20, 3}}
	more := 20
	if testing.Short() {
		more = 3
	}
	for range more {
		steps = append(steps, []int{1, 1, 1})
	}
	lim := testkit.LimitsFor(steps, 16)
	lim.Logits = 4
	p, err := compile.Compile(g, dev, w, lim)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	batches := testkit.Sequence(steps, lim, 61, false, 7)
	collect := func() {
		out := make([]sampling.Result, 4)
		if _, err := p.SampleResults(out); err != nil {
			t.Fatal(err)
		}
		for i, o := range out {
			if o.Failure != sampling.None || i > 0 && len(o.Top) != 2 {
				t.Errorf("draw %d gave %+v", i, o)
			}
			tokens[i] = append(tokens[i], o.Token)
		}
	}
	for n, batch := range batches {
		batch.LogitsIndices = batch.LogitsIndices[:0]
		for s := range 3 {
			batch.LogitsIndices = append(batch.LogitsIndices, batch.QStart[s+1]-1)
		}
		var samples []sampling.Sample
		for i, row := range []int{0, 1, 2, 1} {
			d := sampling.Sample{Row: row, TopP: 1, TypicalP: 1, Repetition: 1, Future: -1, U: float64(n*7%20) / 20}
			if i > 0 {
				d.Temperature, d.TopK, d.Logprob, d.Top = 0.9, 10, true, 2
			}
			if n > 0 && i < 3 {
				batch.Tokens[i], batch.FutureTokens = int32(-1-i), 4
				d.Frequency, d.Future = 0.5, i
			}
			samples = append(samples, d)
		}
		if err := batch.Check(lim, 61); err != nil {
			t.Fatal(err)
		}
		if err := p.Run(batch); err != nil {
			t.Fatal(err)
		}
		deferred := n%2 == 1 // as for requests with grammars: what the previous step sampled is read before this one is sampled from
		if deferred {
			collect()
		}
		if err := p.Sample(samples); err != nil {
			t.Fatal(err)
		}
		if n > 0 && !deferred {
			collect()
		}
	}
	collect()
	return tokens
}
