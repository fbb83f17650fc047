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
	"github.com/ridge-llm/ridge/pass"
)

// startGroup is an engine on a small model over the devices of a layout. fail is asked after each step of the last one.
func startGroup(t *testing.T, l pass.Layout, lim backend.Limits, fail func(*backend.Batch) error) *engine.Engine {
	t.Helper()
	b, err := modeldir.Open("../internal/check/testdata/llama-default")
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	var devices []backend.Device
	for range l.Devices() {
		dev, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		devices = append(devices, dev)
	}
	given := slices.Clone(devices)
	given[len(given)-1] = &faultyRank{devices[len(devices)-1].(*cpu.Device), fail}
	prog, err := compile.CompileGroup(g, pass.Options{Layout: l}, given, b, lim)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(prog, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		for _, d := range devices {
			d.Close()
		}
		b.Close()
	})
	return e
}

// faultyRank is a CPU of which some launches fail.
type faultyRank struct {
	*cpu.Device
	fail func(*backend.Batch) error
}

func (d *faultyRank) Run(launches []backend.Launch, b *backend.Batch) error {
	if err := d.Device.Run(launches, b); err != nil {
		return err
	}
	return d.fail(b)
}

func works(*backend.Batch) error { return nil }

// TestGroup: requests get the tokens from several devices that they get from one, side by side, with prefixes found in the cache and
// with so few pages that they are preempted.
func TestGroup(t *testing.T) {
	one := start(t, roomy)
	var want [][]int32
	for i := range 6 {
		want = append(want, wait(t, submit(t, one, context.Background(), request(i, 5+9*i, 24))).tokens)
	}
	tight := roomy
	tight.Pages = 9
	for name, lim := range map[string]backend.Limits{"roomy": roomy, "tight": tight} {
		for _, l := range []pass.Layout{{Tensor: 2, Pipeline: 1, Data: 1}, {Tensor: 1, Pipeline: 2, Data: 1}, {Tensor: 2, Pipeline: 2, Data: 1}} {
			t.Run(name+"/"+l.String(), func(t *testing.T) {
				e := startGroup(t, l, lim, works)
				for range 2 { // the second time from the cache
					var done []<-chan result
					for i := range want {
						done = append(done, submit(t, e, context.Background(), request(i, 5+9*i, 24)))
					}
					for i, d := range done {
						if r := wait(t, d); r.final.Err != nil || !slices.Equal(r.tokens, want[i]) {
							t.Errorf("request %d: %v (%v), on one device it was %v", i, r.tokens, r.final.Err, want[i])
						}
					}
				}
			})
		}
	}
}

// TestRankFails: a step in which one device fails, or panics, fails as a whole, at whichever step that is; the others do not wait for it, and the next step
// works.
func TestRankFails(t *testing.T) {
	l := pass.Layout{Tensor: 2, Pipeline: 2, Data: 1}
	want := wait(t, submit(t, startGroup(t, l, roomy, works), context.Background(), request(1, 20, 12))).tokens
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("the device has hiccups") },
		"panic": func() error { panic("out of cheese") },
	} {
		t.Run(name, func(t *testing.T) {
			for at := int64(1); at <= 12; at++ {
				var runs atomic.Int64
				e := startGroup(t, l, roomy, func(*backend.Batch) error {
					if runs.Add(1) == at {
						return fail()
					}
					return nil
				})
				if r := wait(t, submit(t, e, context.Background(), request(1, 20, 12))); r.final.Err != nil || !slices.Equal(r.tokens, want) {
					t.Errorf("step %d fails: %v (%v); without the failure it was %v", at, r.tokens, r.final.Err, want)
				}
				if runs.Load() < at {
					t.Errorf("step %d did not fail; there were %d", at, runs.Load())
				}
			}
		})
	}
}

// TestRankLost: when one of several devices is lost, at whichever step, the requests that have not ended end with that, once, and the engine with them.
func TestRankLost(t *testing.T) {
	l := pass.Layout{Tensor: 2, Pipeline: 2, Data: 1}
	for at := int64(1); at <= 12; at += 3 {
		var runs atomic.Int64
		e := startGroup(t, l, roomy, func(*backend.Batch) error {
			if runs.Add(1) >= at {
				return fmt.Errorf("the rank is gone: %w", backend.ErrLost)
			}
			return nil
		})
		var all []<-chan result
		e.Together(func() { // or the engine may have ended before the last comes
			for i := range 3 {
				all = append(all, submit(t, e, context.Background(), request(i, 20, 40)))
			}
		})
		for i, one := range all {
			if r := wait(t, one); !errors.Is(r.final.Err, backend.ErrLost) {
				t.Errorf("step %d: request %d ended with %v", at, i, r.final.Err)
			}
		}
		if err := e.Wait(); !errors.Is(err, backend.ErrLost) {
			t.Errorf("step %d: the engine ended with %v", at, err)
		}
		if n := runs.Load(); n != at {
			t.Errorf("%d steps were run on a device that was lost at step %d", n, at)
		}
	}
}
