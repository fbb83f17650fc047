package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
)

// launch is a bound node: put puts its kernels on the device's stream for a step.
type launch struct {
	text     string
	put      func(s *step) error
	link     func(links) error // does what is left once all nodes of a program are bound; nil: nothing
	prologue *prologue         // of products that compute a norm themselves; nil of others
	of       *peers            // the group that does it together; nil: this GPU alone does
}

// String implements backend.Launch.
func (l *launch) String() string { return l.text }

// Run implements backend.Device. It returns when the step is queued.
func (d *Device) Run(launches []backend.Launch, b *backend.Batch) error {
	return d.do(func() error { return d.run(launches, b) })
}

func (d *Device) run(launches []backend.Launch, b *backend.Batch) error {
	return d.stepWith(launches, b, func(list []*launch, s *step) error {
		if s.recorded {
			return d.steps.replay(graphKey{&launches[0], s.shape, d.steps.next}, list, s)
		}
		return put(list, s)
	})
}

// RunDivided implements backend.RowDivider. Such steps are not recorded.
func (d *Device) RunDivided(launches []backend.Launch, wide []bool, whole, own *backend.Batch, by backend.Division) error {
	return d.do(func() error {
		return d.stepsWith(launches, []*backend.Batch{whole, own}, &by, func(list []*launch, of []step) error {
			for i, l := range list {
				s := &of[0]
				if !wide[i] {
					s = &of[1]
				}
				if s.tokens == 0 {
					continue
				}
				if err := l.put(s); err != nil {
					return fmt.Errorf("%s: %w", l.text, err)
				}
			}
			return nil
		})
	})
}

// stepWith is stepsWith of one batch.
func (d *Device) stepWith(launches []backend.Launch, b *backend.Batch, do func([]*launch, *step) error) error {
	return d.stepsWith(launches, []*backend.Batch{b}, nil, func(list []*launch, of []step) error { return do(list, &of[0]) })
}

// stepsWith lays a step's data out on the device and has do put the program's launches on the stream. A step whose rows are divided has several batches, of which the first is of all, and by says how they are.
func (d *Device) stepsWith(launches []backend.Launch, batches []*backend.Batch, by *backend.Division, do func([]*launch, []step) error) error {
	if len(launches) == 0 {
		return nil
	}
	st, b := d.steps, batches[0]
	st.logitsRows, d.read.rows = len(b.LogitsIndices), 0
	buffer, err := st.free(len(batches))
	if err != nil {
		return err
	}
	list, err := d.ready(launches)
	if err != nil {
		return err
	}
	for _, b := range batches {
		if err := d.swap.before(b, st.lim.PageSize); err != nil {
			return err
		}
	}
	if err := d.awaitAdapters(b); err != nil {
		return err
	}
	w := writer{host: buffer.host, base: buffer.device}
	of := make([]step, len(batches))
	for i, b := range batches {
		sh := shapeOf(b, st.lim)
		if len(batches) == 1 {
			sh = sh.rounded(b, st.lim)
		}
		of[i] = pack(&w, b, sh, st.lim, st.varying)
		of[i].buffer = buffer
	}
	if by != nil {
		of[0].first, of[0].LogitsIndices = by.First, w.ints(len(by.Logits), by.Logits)
	}
	if err := d.stream.Record(buffer.began); err != nil {
		return err
	}
	if err := d.stream.Upload(buffer.device, buffer.host[:w.used]); err != nil {
		return err
	}
	if err := do(list, of); err != nil {
		return err
	}
	return d.stream.Record(buffer.done)
}

// apartFrom is the fewest rows of a step in which RoPE of queries and keys does not overlap with the projections (programmatic dependent launch).
// docs/lore.md, 80, has the measurements.
const apartFrom = 65

// apart puts a launch on the stream that, in a step of many rows, does not overlap with the one before it.
func (d *Device) apart(s *step, launch func() error) error {
	if s.tokens < apartFrom {
		return launch()
	}
	return d.inOrder(launch)
}

// inOrder puts a launch on the stream that does not begin before the one ahead of it has ended.
func (d *Device) inOrder(launch func() error) error {
	overlap := d.stream.Overlap
	d.stream.Overlap = false
	defer func() { d.stream.Overlap = overlap }()
	return launch()
}

// replay launches the CUDA graph of this shape, capturing it when it is the first.
func (st *steps) replay(key graphKey, launches []*launch, s *step) error {
	g := st.graphs[key]
	if g == nil {
		var err error
		if g, err = st.stream.Capture(func() error { return put(launches, s) }); err != nil {
			return err
		}
		st.graphs[key] = g
	}
	return st.stream.Replay(g)
}

func put(launches []*launch, s *step) error {
	for _, l := range launches {
		if err := l.put(s); err != nil {
			return fmt.Errorf("%s: %w", l.text, err)
		}
	}
	return nil
}
