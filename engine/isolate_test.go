package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
)

// faulty is a device whose steps fail when fail says so, after they have overwritten part of the cache.
type faulty struct {
	backend.Device
	fail func(*backend.Batch) error
}

func (d *faulty) Run(launches []backend.Launch, b *backend.Batch) error {
	if err := d.Device.Run(launches, b); err != nil {
		return err
	}
	return d.fail(b)
}

func startFaulty(t *testing.T, fail func(*backend.Batch) error) *engine.Engine {
	t.Helper()
	b, err := modeldir.Open("../internal/check/testdata/llama-default")
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := compile.Compile(g, &faulty{dev, fail}, b, roomy)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(prog, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); dev.Close(); b.Close() })
	return e
}

// TestCulpritIsFound: steps with one request's token fail. That request ends with the error, the others answer as they
// would have without it, and those that come later are served.
func TestCulpritIsFound(t *testing.T) {
	good := func(*backend.Batch) error { return nil }
	var want [][]int32
	alone := startFaulty(t, good)
	for i := range 5 {
		want = append(want, wait(t, submit(t, alone, context.Background(), request(i, 20+5*i, 12))).tokens)
	}
	seen := slices.Concat(append(want, prompt(0, 20), prompt(1, 25), prompt(2, 30), prompt(3, 35), prompt(4, 40), prompt(9, 30))...)
	var poison int32
	for slices.Contains(seen, poison) {
		poison++
	}
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("the device has hiccups") },
		"panic": func() error { panic("out of cheese") },
	} {
		t.Run(name, func(t *testing.T) {
			e := startFaulty(t, func(b *backend.Batch) error {
				if slices.Contains(b.Tokens, poison) {
					return fail()
				}
				return nil
			})
			var done []<-chan result
			for i := range 5 {
				done = append(done, submit(t, e, context.Background(), request(i, 20+5*i, 12)))
				if i == 2 {
					bad := request(9, 30, 12)
					bad.Prompt[25] = poison
					done = append(done, submit(t, e, context.Background(), bad))
				}
			}
			var step *engine.StepError
			if r := wait(t, done[3]); !errors.As(r.final.Err, &step) {
				t.Errorf("the culprit ended with %v", r.final.Err)
			}
			for i, d := range slices.Delete(done, 3, 4) {
				if r := wait(t, d); r.final.Err != nil || !slices.Equal(r.tokens, want[i]) {
					t.Errorf("request %d ended with %v and %v; without the culprit it has %v", i, r.final.Err, r.tokens, want[i])
				}
			}
			if r := wait(t, submit(t, e, context.Background(), request(0, 20, 12))); r.final.Err != nil || !slices.Equal(r.tokens, want[0]) {
				t.Errorf("a later request ended with %v and %v", r.final.Err, r.tokens)
			}
		})
	}
}

// TestHiccup: a single failure costs requests time and nothing else.
func TestHiccup(t *testing.T) {
	var steps atomic.Int32
	e := startFaulty(t, func(*backend.Batch) error {
		if steps.Add(1) == 8 {
			return errors.New("the device has hiccups")
		}
		return nil
	})
	var done []<-chan result
	for i := range 6 {
		done = append(done, submit(t, e, context.Background(), request(i, 10+i, 15)))
	}
	for i, d := range done {
		if r := wait(t, d); r.final.Err != nil || len(r.tokens) != 15 {
			t.Errorf("request %d ended with %d tokens and %v", i, len(r.tokens), r.final.Err)
		}
	}
}

// TestBrokenDevice: when every step fails, all requests end with the error, and so do those that come later.
func TestBrokenDevice(t *testing.T) {
	broken := errors.New("the device has gone")
	e := startFaulty(t, func(*backend.Batch) error { return broken })
	ended := make(chan error, 6)
	for i := range 6 {
		r := request(i, 10+i, 15)
		r.Done = func(f engine.Final) { ended <- f.Err }
		if err := e.Submit(context.Background(), r); err != nil {
			ended <- err // the engine has found out already
		}
	}
	for range 6 {
		if err := <-ended; !errors.Is(err, broken) {
			t.Errorf("a request ended with %v", err)
		}
	}
	if err := e.Submit(context.Background(), request(1, 5, 5)); !errors.Is(err, broken) || !errors.Is(e.Err(), broken) {
		t.Errorf("a later request got %v; the engine says %v", err, e.Err())
	}
}

// TestLostDevice: a device that is lost gets no further step, and Wait returns its error.
func TestLostDevice(t *testing.T) {
	lost := fmt.Errorf("a kernel has faulted: %w", backend.ErrLost)
	var steps atomic.Int32
	e := startFaulty(t, func(*backend.Batch) error {
		steps.Add(1)
		return lost
	})
	if err := e.Submit(context.Background(), request(1, 5, 5)); err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(); !errors.Is(err, lost) || !errors.Is(e.Err(), lost) {
		t.Errorf("the engine ended with %v and says %v", err, e.Err())
	}
	if n := steps.Load(); n != 1 {
		t.Errorf("%d steps were tried", n)
	}
}
