package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// TestHopelessDeadline: a request that could not have its first token before its deadline is refused; a token takes a millisecond.
func TestHopelessDeadline(t *testing.T) {
	lim := backend.Limits{Tokens: 100, Seqs: 2, Logits: 2, PageSize: 16, SeqPages: 20, Pages: 60}
	e := still(t, modeldir.Builtin, lim, Options{TargetITL: 50 * time.Millisecond, Predictor: &slope{}, MaxWaiting: 1})
	prompt := make([]int32, 200)
	if err := e.Submit(context.Background(), greedy(prompt[:50], 9)); err != nil {
		t.Fatal(err)
	}
	e.admit()
	mustStep(t, e)
	e.publish()
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
