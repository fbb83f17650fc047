package cuda

import (
	"errors"
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
)

// RunTimed implements backend.Measurer.
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
		if err := d.stepWith(launches, b, func(list []*launch, s *step) error {
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
		for i := range took {
			if took[i], err = clock[i+1].Since(clock[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
