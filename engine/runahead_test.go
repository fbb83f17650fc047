package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/engine/grammar"
	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
)

// collected is a request's answer and end.
type collected struct {
	tokens []int32
	final  *Final
}

// into has a request's answer collected.
func (c *collected) into(r Request) Request {
	r.Emit = func(x sample.Choice) bool { c.tokens = append(c.tokens, x.Token); return false }
	r.Done = func(f Final) { c.final = &f }
	return r
}

// constrainedRequest has an answer with runs of three tokens that the grammar forces.
func constrainedRequest(t testing.TB, seed uint64, n int) Request {
	r := greedy([]int32{int32(4 + seed), 20, 30}, n)
	r.Params.Temperature, r.Params.Seed = 1.2, seed
	g, err := grammar.FromRegex("([a-m]-->[0-9][0-9])+")
	r.Ends, r.Grammar = []int32{2}, grammartest.Letters(t, 96, g, err)
	return r
}

// TestConstrainedBesidePlain: on a device that samples, one request with a grammar among eight without keeps none of them from
// running ahead: they have a row in every step, and every step is launched before the previous one is collected. The one with the
// grammar has the answer that it has alone, in steps of which few are wasted.
func TestConstrainedBesidePlain(t *testing.T) {
	const plain, out = 8, 60
	lim := backend.Limits{Tokens: 64, Seqs: plain + 1, Logits: plain + 1, PageSize: 4, SeqPages: 32, Pages: 32 * (plain + 1)}
	var want [plain + 1]collected
	alone := onRef(t, false, lim, Options{Index: "none"})
	ask := func(e *stepped, i int, to *collected) {
		t.Helper()
		r := greedy([]int32{int32(5 + i), 6, 7}, out)
		if i == plain {
			r = constrainedRequest(t, 1, out/2)
		}
		if err := e.Submit(context.Background(), to.into(r)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range want {
		ask(alone, i, &want[i])
		for alone.admit(); len(alone.queue.byID) > 0; {
			mustStep(t, alone)
		}
	}
	var got [plain + 1]collected
	e := onRef(t, true, lim, Options{})
	for i := range got {
		ask(e, i, &got[i])
	}
	e.admit()
	steps, constrained := 0, 0
	for len(e.queue.byID) > 0 {
		mustStep(t, e)
		if got[plain].final != nil {
			continue
		}
		steps++
		if e.current == nil {
			t.Fatalf("step %d was not launched ahead", steps)
		}
		rows := 0
		for _, a := range e.current.requests {
			if a.rows > 0 && a.request.Grammar == nil {
				rows++
			} else if a.request.Grammar != nil {
				constrained++
			}
		}
		if rows != plain {
			t.Fatalf("%d of %d plain requests have a row in the step that was launched ahead", rows, plain)
		}
	}
	for i := range got {
		if !slices.Equal(got[i].tokens, want[i].tokens) || got[i].final.Err != nil {
			t.Errorf("request %d got %v (%+v); alone it got %v", i, got[i].tokens, got[i].final, want[i].tokens)
		}
	}
	n := len(got[plain].tokens)
	if n < out/2 || steps > n {
		t.Errorf("the request with a grammar took %d steps for %d tokens", steps, n)
	}
	t.Logf("%d steps for %d tokens of the request with a grammar; it was in %d of them", steps, n, constrained)
}

// TestConstrainedAlone: when the host has to see every token before the next step, steps are not launched ahead, and none is
// wasted on tokens that a grammar forces.
func TestConstrainedAlone(t *testing.T) {
	lim := backend.Limits{Tokens: 64, Seqs: 2, Logits: 2, PageSize: 4, SeqPages: 32, Pages: 64}
	count := func(samples bool) (steps int64, got [2]collected) {
		e := onRef(t, samples, lim, Options{})
		for i := range got {
			if err := e.Submit(context.Background(), got[i].into(constrainedRequest(t, uint64(i), 40))); err != nil {
				t.Fatal(err)
			}
		}
		for e.admit(); len(e.queue.byID) > 0; {
			mustStep(t, e)
			if e.current != nil {
				t.Fatal("a step was launched ahead of what the host has to see")
			}
		}
		return e.meter.stats.Steps, got
	}
	onHost, want := count(false)
	onDevice, got := count(true)
	if onDevice != onHost || !slices.Equal(got[0].tokens, want[0].tokens) || !slices.Equal(got[1].tokens, want[1].tokens) {
		t.Errorf("%d steps for %v and %v; where the host samples %d for %v and %v", onDevice, got[0].tokens, got[1].tokens, onHost, want[0].tokens, want[1].tokens)
	}
}

// idleSampler is a device that computes nothing and samples token 5.
type idleSampler struct{ idle }

func (idleSampler) Sample(*graph.Value, backend.Buffer, []sampling.Sample) error { return nil }

func (idleSampler) SampleResults(dst []sampling.Result) (time.Duration, error) {
	for i := range dst {
		dst[i] = sampling.Result{Token: 5, Top: dst[i].Top[:0]}
	}
	return time.Microsecond, nil
}

// TestRunAheadAllocatesNothing: a step that is launched ahead allocates nothing, whether a penalty depends on the token in flight or not.
func TestRunAheadAllocatesNothing(t *testing.T) {
	lim := backend.Limits{Tokens: 64, Seqs: 8, Logits: 8, PageSize: 16, SeqPages: 32, Pages: 256}
	e := on(t, idleSampler{idle{ref.New()}}, lim, Options{})
	for i := range 8 {
		r := greedy([]int32{int32(10 + i), 20, 30}, 400)
		r.Params.FrequencyPenalty = float64(i%2) / 2
		if err := e.Submit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	e.admit()
	for range 20 {
		mustStep(t, e)
	}
	got := testing.AllocsPerRun(100, func() {
		e.admit()
		if err := e.step(); err != nil || e.current == nil {
			t.Fatal("a step was not launched ahead", err)
		}
		e.publish()
	})
	if got != 0 || len(e.queue.byID) != 8 {
		t.Errorf("a step of %d requests allocates %v times", len(e.queue.byID), got)
	}
}
