package simulate

import (
	"fmt"
	"math"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
)

// stages is a program of several pipeline stages (compile.Pipelined): a stage begins with a step when the stage before has done it and it has done the step before.
type stages struct {
	*compile.Program
	device *device
	cost   func(*graph.Step) []float64 // of each stage, s
	takes  []float64                   // likewise of a step: as long as the device of the stage that needs most
	free   []int64                     // when each has done what it was given, ns
	done   []int64                     // when the steps that were begun are
}

var _ compile.Pipelined = (*stages)(nil)

// Stages implements compile.Pipelined.
func (x *stages) Stages() int { return len(x.free) }

// Begin implements compile.Pipelined.
func (x *stages) Begin(b *backend.Batch, _ bool) error {
	d := x.device
	clear(x.takes)
	for rank := range d.ranks() {
		d.part(b, rank)
		for i, seconds := range x.cost(&d.rank) {
			if !(seconds >= 0 && seconds < 1e6) {
				return fmt.Errorf("simulate: stage %d is priced at %g s for a step of %d tokens", i, seconds, d.rank.Tokens())
			}
			x.takes[i] = max(x.takes[i], seconds)
		}
	}
	at := int64(d.clock.since())
	for i, seconds := range x.takes {
		took := int64(math.Round(seconds * 1e9))
		at = max(at, x.free[i]) + took
		x.free[i] = at
		d.spent += time.Duration(took) / time.Duration(len(x.free))
	}
	x.done = append(x.done, at)
	return nil
}

// End implements compile.Pipelined: time passes until the last stage has done the step.
func (x *stages) End() error {
	at := x.done[0]
	x.done = append(x.done[:0], x.done[1:]...)
	d := x.device
	d.clock.reach(time.Duration(at))
	d.steps++
	d.ran()
	return nil
}

// Abandon implements compile.Pipelined.
func (x *stages) Abandon() error {
	for len(x.done) > 0 {
		if err := x.End(); err != nil {
			return err
		}
	}
	return nil
}

// Run implements compile.Runner.
func (x *stages) Run(b *backend.Batch) error {
	if err := x.Abandon(); err != nil {
		return err
	}
	if err := x.Begin(b, false); err != nil {
		return err
	}
	return x.End()
}

// RunBody implements compile.Runner.
func (x *stages) RunBody(b *backend.Batch) error { return x.Run(b) }
