package cuda

import (
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
)

// adapterLoads is which slots have numbers on their way to them. All but there is the goroutine's that runs steps.
type adapterLoads struct {
	n     int64           // loads that were begun before the one that SetAdapter adds to
	of    map[int32]int64 // the last load of each slot
	there atomic.Int64    // loads that have ended
}

// begin notes that numbers are on their way to a slot.
func (l *adapterLoads) begin(slot int) {
	if l.of == nil {
		l.of = map[int32]int64{}
	}
	l.of[int32(slot)] = l.n + 1
}

// AdaptersSet implements backend.AdapterLoader.
func (d *Device) AdaptersSet(done func(error)) {
	d.loads.n++
	n := d.loads.n
	d.upload.after(func(err error) {
		if err == nil {
			d.loads.there.Store(n)
		}
		done(err)
	})
}

// awaitAdapters has a step wait for adapters that it uses and that are on their way.
func (d *Device) awaitAdapters(b *backend.Batch) error {
	there := d.loads.there.Load()
	for _, a := range b.Adapters {
		if d.loads.of[a.Slot] <= there {
			continue
		}
		d.loads.n++
		if err := d.upload.wait(); err != nil {
			return err
		}
		d.loads.there.Store(d.loads.n)
		return nil
	}
	return nil
}
