package cuda

import (
	"errors"
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// RunTimed implements backend.Measurer. Launches that were joined with their neighbours are timed together and share the time by
// what each must do.
func (d *Device) RunTimed(launches []backend.Launch, b *backend.Batch, took []time.Duration) error {
	if len(took) != len(launches) {
		return fmt.Errorf("cuda: %d times for %d launches", len(took), len(launches))
	}
	return d.do(func() (err error) {
		clock, err := d.clock(len(launches) + 1)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop(clock)) }()
		var joined []*launch
		if err := d.stepWith(launches, b, func(list []*launch, s *step) error {
			joined = list
			for i, l := range list {
				if err := errors.Join(d.stream.Record(clock[i]), l.put(s)); err != nil {
					return err
				}
			}
			return d.stream.Record(clock[len(list)])
		}); err != nil {
			return err
		}
		if err := d.stream.Synchronize(); err != nil {
			return err
		}
		var size graph.Step
		b.Step(&size)
		at := 0
		for i, l := range joined {
			together, err := clock[i+1].Since(clock[i])
			if err != nil {
				return err
			}
			share(took[at:at+l.count], launches[at:at+l.count], together, &size)
			at += l.count
		}
		return nil
	})
}

// flopsPerByte is about how much arithmetic the tensor cores of such GPUs do while the memory moves a byte.
const flopsPerByte = 190

// share deals a time out by what each launch's node must move and compute in a step.
func share(took []time.Duration, launches []backend.Launch, together time.Duration, size *graph.Step) {
	cost, sum := make([]float64, len(launches)), 0.0
	for i, l := range launches {
		n := l.(*launch).node
		w := n.Op.Work(n, size)
		cost[i] = 1 + float64(w.Bytes()) + float64(w.FLOPs)/flopsPerByte
		sum += cost[i]
	}
	for i := range took {
		took[i] = time.Duration(float64(together) * cost[i] / sum)
	}
}
