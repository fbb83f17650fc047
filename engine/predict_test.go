package engine

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

func stepOf(tokens int) *graph.Step { return &graph.Step{Seqs: []graph.Seq{{New: tokens}}} }

// TestAveragesFindALine: after steps whose time is a + b·tokens, or the weights' for few tokens, predictions are near it.
func TestAveragesFindALine(t *testing.T) {
	took := func(tokens int) float64 { return max(0.05, 0.02+0.003*float64(tokens)) }
	var a averages
	if p := a.Predict(sched.Shape{Tokens: 5}); p != 0 {
		t.Errorf("%g s are predicted before the first step", p)
	}
	for n := 1; n <= 512; n += n/2 + 1 {
		for range 100 {
			a.Observe(stepOf(n), took(n))
		}
	}
	for _, n := range []int{1, 3, 20, 50, 100, 333, 512, 2000} {
		if got := a.Predict(sched.Shape{Tokens: n}); math.Abs(got/took(n)-1) > 0.15 {
			t.Errorf("%d tokens: %.4f s predicted, %.4f s it takes", n, got, took(n))
		}
	}
}

// TestAveragesNeverShrink: whatever was measured, more tokens are not predicted to take less time; the builder's search
// for the largest chunk relies on it.
func TestAveragesNeverShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a averages
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			a.Observe(stepOf(rapid.IntRange(1, 600).Draw(t, "tokens")), rapid.Float64Range(0.001, 2).Draw(t, "seconds"))
		}
		last := 0.0
		for n := 1; n < 700; n++ {
			p := a.Predict(sched.Shape{Tokens: n})
			if !(p >= last) {
				t.Fatalf("%d tokens: %g s; %g s for one fewer", n, p, last)
			}
			last = p
		}
	})
}

// slope is a Predictor of a millisecond for each token.
type slope struct{ observed int }

func (s *slope) Predict(shape sched.Shape) float64 { return float64(shape.Tokens) / 1000 }
func (s *slope) Observe(step *graph.Step, _ float64) float64 {
	s.observed += step.Tokens()
	return float64(step.Tokens()) / 1000
}

// TestTargetITL: beside an answer, prompts get the chunk that leaves the target; alone, all there is.
func TestTargetITL(t *testing.T) {
	var clock slope
	lim := backend.Limits{Tokens: 256, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 16, Pages: 64}
	e := still(t, modeldir.Builtin, lim, Options{TargetITL: 50 * time.Millisecond, Predictor: &clock})
	submit := func(n, out int) {
		t.Helper()
		prompt := make([]int32, n)
		for i := range prompt {
			prompt[i] = int32(3 + (i*i+n)%90)
		}
		if err := e.Submit(context.Background(), greedy(prompt, out)); err != nil {
			t.Fatal(err)
		}
		e.admit()
	}
	submit(200, 30)
	if mustStep(t, e); len(e.last.batch.Tokens) != 200 {
		t.Errorf("the first step has %d tokens; nobody waits for another of his answer, so all 200 fit", len(e.last.batch.Tokens))
	}
	submit(150, 1)
	for n := 0; len(e.byID) > 1; n++ {
		if mustStep(t, e); len(e.last.batch.Tokens) > 50 || n > 10 {
			t.Fatalf("step %d beside an answer has %d tokens; 50 fit in the target", n, len(e.last.batch.Tokens))
		}
	}
	if clock.observed < 350 {
		t.Errorf("the predictor was shown %d tokens; there were 350 and more", clock.observed)
	}
}
