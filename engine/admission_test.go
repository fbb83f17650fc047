package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sample"
)

// stuffed is an engine whose one running request is held in Emit until release is called.
func stuffed(t *testing.T, o engine.Options) (e *engine.Engine, running <-chan result, release func()) {
	t.Helper()
	one := roomy
	one.Seqs, one.Logits = 1, 1
	e = startWith(t, one, o)
	entered, gate := make(chan struct{}), make(chan struct{})
	r := request(1, 5, 3)
	n := 0
	r.Emit = func(sample.Choice) bool {
		if n++; n == 2 { // from the second token on the first counts as running
			close(entered)
			<-gate
		}
		return false
	}
	running = submit(t, e, context.Background(), r)
	<-entered
	return e, running, func() { close(gate) }
}

func TestFullQueue(t *testing.T) {
	e, running, release := stuffed(t, engine.Options{MaxWaiting: 2})
	second := submit(t, e, context.Background(), request(2, 5, 3))
	third := submit(t, e, context.Background(), request(3, 5, 3))
	var full *engine.FullError
	if err := e.Submit(context.Background(), request(4, 5, 3)); !errors.As(err, &full) || full.Waiting != 2 || full.Backlog < 10 || full.Retry < time.Second {
		t.Errorf("the fourth request got %v", err)
	}
	release()
	for i, d := range []<-chan result{running, second, third} {
		if r := wait(t, d); r.final.Err != nil {
			t.Errorf("request %d, which was accepted, ended with %v", i, r.final.Err)
		}
	}
}

func TestHopelessDeadline(t *testing.T) {
	e := start(t, roomy)
	wait(t, submit(t, e, context.Background(), request(1, 50, 10))) // for a measured speed
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	var late *engine.LateError
	if err := e.Submit(ctx, request(2, 50, 1)); !errors.As(err, &late) {
		t.Errorf("a deadline in a nanosecond got %v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if r := wait(t, submit(t, e, ctx, request(2, 50, 1))); r.final.Err != nil {
		t.Errorf("a deadline in an hour got %v", r.final.Err)
	}
}

// TestPanic: a panic in one request's callback ends that request; those beside it and after it are served.
func TestPanic(t *testing.T) {
	e := start(t, roomy)
	other := submit(t, e, context.Background(), request(1, 10, 30))
	bad := request(2, 10, 30)
	bad.Emit = func(sample.Choice) bool { panic("out of cheese") }
	var failure *engine.PanicError
	if r := wait(t, submit(t, e, context.Background(), bad)); !errors.As(r.final.Err, &failure) || failure.Value != "out of cheese" {
		t.Errorf("it ended with %v", r.final.Err)
	}
	for _, d := range []<-chan result{other, submit(t, e, context.Background(), request(3, 10, 5))} {
		if r := wait(t, d); r.final.Err != nil {
			t.Errorf("another request ended with %v", r.final.Err)
		}
	}
}

func TestDrain(t *testing.T) {
	e, running, release := stuffed(t, engine.Options{})
	waiting := submit(t, e, context.Background(), request(2, 5, 3))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("draining was given up with %v", err)
	}
	if err := e.Submit(context.Background(), request(3, 5, 3)); !errors.Is(err, engine.ErrDraining) || !errors.Is(e.Err(), engine.ErrDraining) {
		t.Errorf("a draining engine said %v", err)
	}
	release()
	if err := e.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	for _, d := range []<-chan result{running, waiting} {
		if r := wait(t, d); r.final.Err != nil || len(r.tokens) != 3 {
			t.Errorf("an accepted request ended with %+v", r.final)
		}
	}
}

func TestStats(t *testing.T) {
	e := start(t, roomy)
	for range 2 {
		wait(t, submit(t, e, context.Background(), request(1, 50, 10)))
	}
	if err := e.Drain(context.Background()); err != nil { // the last step has been counted
		t.Fatal(err)
	}
	s := e.Stats()
	want := engine.Stats{
		Pages: 64, PageSize: 16, PagesIdle: 3, Queried: 100, Found: 48, Output: 20, Computed: 59 + 11,
		Steps: s.Steps, StepTime: s.StepTime, Rate: s.Rate, Answer: 10, HostTime: s.HostTime,
	}
	if s != want || s.Steps < 20 || s.StepTime <= 0 || s.HostTime <= 0 || s.Rate <= 0 {
		t.Errorf("%+v; it should be %+v", s, want)
	}
}

// TestIndexAndSalt: every index serves; without one, or with another salt, nothing is found.
func TestIndexAndSalt(t *testing.T) {
	for name, found := range map[string]int{"radix": 48, "hash": 48, "none": 0} {
		e := startWith(t, roomy, engine.Options{Index: name})
		first := wait(t, submit(t, e, context.Background(), request(1, 50, 10)))
		again := wait(t, submit(t, e, context.Background(), request(1, 50, 10)))
		if again.final.Cached != found {
			t.Errorf("index %s: %d tokens were cached, not %d", name, again.final.Cached, found)
		}
		salted := request(1, 50, 10)
		salted.Salt = 7
		if r := wait(t, submit(t, e, context.Background(), salted)); r.final.Cached != 0 || r.tokens[9] != first.tokens[9] {
			t.Errorf("index %s: with another salt %d tokens were cached", name, r.final.Cached)
		}
	}
}
