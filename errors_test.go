package ridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
)

// TestErrors: what is refused or ended can be told apart with errors.Is, and says why.
func TestErrors(t *testing.T) {
	m, err := ridge.Load("", ridge.Options{Threads: 1, Parallel: 1, Context: 512, MaxWaiting: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx := t.Context()
	is := func(what string, err error, kinds ...error) {
		t.Helper()
		for _, kind := range kinds {
			if !errors.Is(err, kind) {
				t.Errorf("%s: %v is not %q", what, err, kind)
			}
		}
	}
	last := func(ctx context.Context, prompt string, p ridge.Params) error {
		_, err := ridge.Text(m.Generate(ctx, prompt, p))
		return err
	}
	long := last(ctx, strings.Repeat("a fox named Pip. ", 300), ridge.Greedy())
	is("a long prompt", long, ridge.ErrContextLength, ridge.ErrInvalidRequest)
	if e := new(ridge.Error); !errors.As(long, &e) || !strings.Contains(e.Reason, "512") {
		t.Errorf("a long prompt: %v does not say how long the context is", long)
	}
	none := ridge.Greedy()
	none.MaxTokens = -1
	wrong := last(ctx, "Once", none)
	is("MaxTokens of -1", wrong, ridge.ErrInvalidRequest)
	if errors.Is(wrong, ridge.ErrContextLength) {
		t.Errorf("%v is about the context", wrong)
	}
	var zero, defaults ridge.Params
	defaults = m.Defaults()
	zero.MaxTokens, defaults.MaxTokens = 12, 12
	one, err := ridge.Text(m.Generate(ctx, "Once", zero))
	if err != nil {
		t.Errorf("the zero Sampling: %v", err)
	}
	if other, err := ridge.Text(m.Generate(ctx, "Once", defaults)); err != nil || one != other {
		t.Errorf("the zero Sampling answers %q, the defaults %q, %v", one, other, err)
	}
	endless := ridge.Greedy()
	endless.IgnoreEnd = true
	prompt, err := m.Encode("Once upon a time", true)
	if err != nil {
		t.Fatal(err)
	}
	held, release := context.WithCancel(ctx)
	for range 100 { // one runs, one waits, and the queue is full
		if _, err = m.GenerateMany(held, prompt, []ridge.Params{endless}); err != nil {
			break
		}
	}
	is("a full queue", err, ridge.ErrQueueFull)
	if e := new(ridge.Error); !errors.As(err, &e) || e.RetryAfter < time.Second {
		t.Errorf("a full queue: %v does not say when to come again", err)
	}
	soon, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	if late := last(soon, "Once", ridge.Greedy()); !errors.Is(late, ridge.ErrDeadline) && !errors.Is(late, ridge.ErrQueueFull) {
		t.Errorf("a deadline that is over: %v", late)
	}
	release()
	if err := m.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	is("after Drain", last(ctx, "Once", ridge.Greedy()), ridge.ErrDraining)
	m.Close()
	is("after Close", last(ctx, "Once", ridge.Greedy()), ridge.ErrClosed)
}
