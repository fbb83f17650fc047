package engine

import (
	"context"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// slope is a Predictor of a millisecond for each token.
type slope struct{ observed int }

func (s *slope) Predict(shape sched.Shape) float64 { return float64(shape.Tokens) / 1000 }
func (s *slope) Observe(step *graph.Step, _ float64) float64 {
	s.observed += step.Tokens()
	return float64(step.Tokens()) / 1000
}

// TestTargetITL: beside an answer, prompts get the chunk that leaves the target, or a multiple of the answer's own time; alone, all there is.
func TestTargetITL(t *testing.T) {
	for name, o := range map[string]Options{"target": {TargetITL: 50 * time.Millisecond}, "ratio": {ITLRatio: 50}} {
		t.Run(name, func(t *testing.T) { testTargetITL(t, o) })
	}
}

func testTargetITL(t *testing.T, o Options) {
	var clock slope
	lim := backend.Limits{Tokens: 256, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 16, Pages: 64}
	o.Predictor = &clock
	e := still(t, modeldir.Builtin, lim, o)
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
		t.Errorf("the first step has %d tokens; no answer waits for its next token, so all 200 fit", len(e.last.batch.Tokens))
	}
	submit(150, 1)
	for n := 0; len(e.queue.byID) > 1; n++ {
		if mustStep(t, e); len(e.last.batch.Tokens) > 50 || n > 10 {
			t.Fatalf("step %d beside an answer has %d tokens; 50 fit in the target", n, len(e.last.batch.Tokens))
		}
	}
	if clock.observed < 350 {
		t.Errorf("the predictor was shown %d tokens; there were 350 and more", clock.observed)
	}
}
