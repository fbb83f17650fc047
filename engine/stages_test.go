package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// stageDevice is a CPU that passes for one of its stage alone, some of whose launches fail, and which may sample.
type stageDevice struct {
	*cpu.Device
	name    string
	fail    func(*backend.Batch) error
	samples bool
	waiting [][]sampling.Result // of steps that have not been asked for
}

func (d *stageDevice) Info() backend.Info {
	info := d.Device.Info()
	info.Name = d.name
	return info
}

func (d *stageDevice) Run(launches []backend.Launch, b *backend.Batch) error {
	if err := d.Device.Run(launches, b); err != nil {
		return err
	}
	return d.fail(b)
}

func (d *stageDevice) CanSample(*graph.Value, int) bool { return d.samples }

func (d *stageDevice) Sample(v *graph.Value, b backend.Buffer, samples []sampling.Sample) error {
	var results []sampling.Result
	row := make([]float32, v.Axis.Len())
	for i := range samples {
		if err := d.Read(row, v, b, samples[i].Row, 1); err != nil {
			return err
		}
		results = append(results, sampling.Reference(&samples[i], row, -1))
	}
	d.waiting = append(d.waiting, results)
	return nil
}

func (d *stageDevice) SampleResults(dst []sampling.Result) (time.Duration, error) {
	if len(d.waiting) == 0 || dst != nil && len(d.waiting[0]) != len(dst) {
		return 0, errors.New("results of other samples are asked for")
	}
	copy(dst, d.waiting[0])
	d.waiting = d.waiting[1:]
	return 0, nil
}

// startStages is an engine on a small model of two stages on so many devices each, which have a step each in flight. fail is asked after each step of the failing stage.
func startStages(t *testing.T, tensor int, samples bool, lim backend.Limits, failing int, fail func(*backend.Batch) error) *engine.Engine {
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
	for i := range 2 * tensor {
		c, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		d := &stageDevice{Device: c, name: fmt.Sprint("stage ", i/tensor), fail: works, samples: samples}
		if i/tensor == failing {
			d.fail = fail
		}
		devices = append(devices, d)
	}
	prog, err := compile.CompileGroup(g, pass.Options{Layout: pass.Layout{Tensor: tensor, Pipeline: 2, Data: 1}}, devices, b, lim)
	if err != nil {
		t.Fatal(err)
	}
	if n := prog.Stages(); n != 2 || prog.CanSample() != samples || prog.RunsAhead() {
		t.Fatalf("stages on devices of their own have %d steps in flight; the last one samples: %t, ahead of others: %t", n, prog.CanSample(), prog.RunsAhead())
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

// TestStages: stages of a process, which are at a step each, give the tokens of one device, whether the last one samples or the host, with pages for all requests and with so few that they are preempted.
func TestStages(t *testing.T) {
	one := start(t, roomy)
	var want [][]int32
	for i := range 6 {
		want = append(want, wait(t, submit(t, one, context.Background(), request(i, 5+9*i, 24))).tokens)
	}
	tight := roomy
	tight.Pages = 9
	for name, lim := range map[string]backend.Limits{"roomy": roomy, "tight": tight} {
		for _, samples := range []bool{true, false} {
			for tensor := 1; tensor <= 2; tensor++ {
				e := startStages(t, tensor, samples, lim, 0, works)
				for range 2 { // the second time from the cache
					var done []<-chan result
					for i := range want {
						done = append(done, submit(t, e, context.Background(), request(i, 5+9*i, 24)))
					}
					for i, d := range done {
						if r := wait(t, d); r.final.Err != nil || !slices.Equal(r.tokens, want[i]) {
							t.Errorf("%s, sampled by a device %t, %d devices a stage: request %d: %v (%v), want %v", name, samples, tensor, i, r.tokens, r.final.Err, want[i])
						}
					}
				}
			}
		}
	}
}

// TestIdleStages: an answer that is alone leaves one of two stages without a step, and its account says so.
func TestIdleStages(t *testing.T) {
	e := startStages(t, 1, false, roomy, 0, works)
	a := wait(t, submit(t, e, context.Background(), request(1, 20, 12))).final.Account
	var steps time.Duration
	for c := range a.Prefill {
		steps += a.Prefill[c] + a.Decode[c]
	}
	if steps += a.OtherRequests; a.Idle < steps*4/10 || a.Idle > steps/2 {
		t.Errorf("stages had no step for %s of %s", a.Idle, steps)
	}
}

// TestStageFails: a step that fails, or panics, on a device of either stage fails alone, at whichever step that is, with others in flight: the requests' tokens are those without the failure.
func TestStageFails(t *testing.T) {
	one := start(t, roomy)
	var want [][]int32
	for i := range 4 {
		want = append(want, wait(t, submit(t, one, context.Background(), request(i, 20+9*i, 12))).tokens)
	}
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("the device has hiccups") },
		"panic": func() error { panic("out of cheese") },
	} {
		for failing := range 2 {
			for at := int64(1); at <= 16; at += 3 {
				var runs atomic.Int64
				e := startStages(t, 2, at%2 == 0, roomy, failing, func(*backend.Batch) error {
					if runs.Add(1) == at {
						return fail()
					}
					return nil
				})
				var done []<-chan result
				for i := range want {
					done = append(done, submit(t, e, context.Background(), request(i, 20+9*i, 12)))
				}
				for i, d := range done {
					if r := wait(t, d); r.final.Err != nil || !slices.Equal(r.tokens, want[i]) {
						t.Errorf("%s at step %d of stage %d: request %d: %v (%v), want %v", name, at, failing, i, r.tokens, r.final.Err, want[i])
					}
				}
				if runs.Load() < at {
					t.Errorf("step %d did not fail; there were %d", at, runs.Load())
				}
			}
		}
	}
}
