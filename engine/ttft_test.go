package engine

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// TestWait: a newcomer waits for the prompts before its own, and for a place.
func TestWait(t *testing.T) {
	for free, want := range map[int]time.Duration{0: 420, 2: 220, 9: 70} {
		o := ttft{perToken: time.Millisecond, turnover: 100 * time.Millisecond, free: free, waiting: 3, backlog: 50}
		if got := o.wait(20); got != want*time.Millisecond {
			t.Errorf("with %d places free: %v, not %d ms", free, got, want)
		}
	}
}

// TestTTFT: at a millisecond a token, in steps of 100 tokens or, beside an answer, of 50 ms.
func TestTTFT(t *testing.T) {
	lim := backend.Limits{Tokens: 100, Seqs: 2, Logits: 2, PageSize: 16, SeqPages: 20, Pages: 60}
	e := still(t, modeldir.Builtin, lim, Options{TargetITL: 50 * time.Millisecond, Predictor: &slope{}, MaxWaiting: 1})
	at := func() ttft {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.estimateTTFT()
	}
	if o := at(); o.answering != 0 || o.perToken != time.Millisecond || o.free != 2 {
		t.Errorf("with nobody there: %+v", o)
	}
	prompt := make([]int32, 200)
	if err := e.Submit(context.Background(), greedy(prompt[:50], 9)); err != nil {
		t.Fatal(err)
	}
	e.admit()
	mustStep(t, e)
	e.settle()
	perToken := 50.0 / 49 // ms: 49 of the prompt's and the answer's one
	if o := at(); o.answering != time.Millisecond || math.Abs(o.perToken.Seconds()*1e3-perToken) > 1e-3 || o.free != 1 {
		t.Errorf("beside an answer: %+v; a token of a prompt takes %.3f ms", o, perToken)
	}
	for _, c := range []struct {
		limit    time.Duration
		hopeless bool
	}{{150 * time.Millisecond, true}, {time.Hour, false}} {
		ctx, cancel := context.WithTimeout(context.Background(), c.limit)
		defer cancel()
		var late *LateError
		if err := e.Submit(ctx, greedy(prompt, 1)); errors.As(err, &late) != c.hopeless || c.hopeless && late.Wait < 200*time.Millisecond {
			t.Errorf("200 tokens in %v: %v", c.limit, err)
		}
	}
}
