// Package ref is the reference backend: plain Go, one thread, float64 sums, no cleverness. It is the definition of
// what each op means and what it must touch: the work it counts while it runs is the work the graph declares.
package ref

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Device is the reference device.
type Device struct {
	batch   *backend.Batch
	counted graph.Work
	sampled []int32             // tokens of the last step
	results [][]sampling.Result // not read yet
}

// New is a reference device.
func New() *Device { return &Device{} }

// Counted is the work done since New or the last call of Counted: what the kernels' loops in fact touched.
func (d *Device) Counted() graph.Work {
	w := d.counted
	d.counted = graph.Work{}
	return w
}

// Info implements backend.Device.
func (d *Device) Info() backend.Info {
	return backend.Info{Name: "ref", Detail: "reference, plain Go, 1 thread", Threads: 1}
}

// memory is the bytes behind a Buffer.
type memory struct{ bytes []byte }

// Alloc implements backend.Device.
func (d *Device) Alloc(n int64, what string) (backend.Buffer, error) {
	if n < 0 {
		return backend.Buffer{}, fmt.Errorf("ref: %d bytes for %s", n, what)
	}
	return backend.Buffer{Mem: &memory{make([]byte, n)}, Len: n}, nil
}

// Free implements backend.Device; the garbage collector does the rest.
func (d *Device) Free(b backend.Buffer) {
	if m, ok := b.Mem.(*memory); ok {
		m.bytes = nil
	}
}

// weight is the matrices of a weight, where they lie in the file.
type weight []quant.Tensor

// Bytes implements backend.Weight: nothing beside the file.
func (w weight) Bytes() int64 { return 0 }

// Place implements backend.Device.
func (d *Device) Place(w *graph.Weight, matrices []quant.Tensor) (backend.Weight, error) {
	if w.Slots != nil {
		return make(slots, w.Slots.Count), nil
	}
	all := make(weight, len(matrices))
	for i, t := range matrices {
		if t.Format != w.Format {
			var err error
			if t, err = t.As(w.Format); err != nil {
				return nil, err
			}
		}
		all[i] = t
	}
	return all, nil
}

// Copy implements backend.Device.
func (d *Device) Copy(dst, src backend.Buffer) error {
	from := src.Mem.(*memory).bytes[src.Off : src.Off+src.Len]
	copy(dst.Mem.(*memory).bytes[dst.Off:dst.Off+dst.Len], from)
	return nil
}

// Close implements backend.Device.
func (d *Device) Close() error { return nil }

// launch is a bound kernel.
type launch struct {
	text string
	run  func(d *Device)
}

// String implements backend.Launch.
func (l launch) String() string { return l.text }

// Run implements backend.Device.
func (d *Device) Run(launches []backend.Launch, b *backend.Batch) error {
	d.batch = d.resolve(b)
	for _, l := range launches {
		l.(launch).run(d)
	}
	return nil
}

// Read implements backend.Device.
func (d *Device) Read(dst []float32, v *graph.Value, b backend.Buffer, from, n int) error {
	width := v.Axis.Len()
	if int64(from+n)*v.RowBytes() > b.Len || len(dst) < n*width {
		return fmt.Errorf("ref: rows %d to %d of %s do not fit", from, from+n, v.Name)
	}
	for i := range n {
		load(dst[i*width:(i+1)*width], v.Type, rowAt(v, b, from+i))
	}
	return nil
}

// Write implements backend.Writer.
func (d *Device) Write(v *graph.Value, b backend.Buffer, rows []float32, n int) error {
	width := v.Axis.Len()
	if int64(n)*v.RowBytes() > b.Len || len(rows) < n*width {
		return fmt.Errorf("ref: %d rows of %s do not fit", n, v.Name)
	}
	for r := range n {
		store(rowAt(v, b, r), v.Type, rows[r*width:(r+1)*width])
	}
	return nil
}

// run computes one node on the current batch.
type run func(d *Device, n *graph.Node, a backend.Args)

// kernel is the one way the reference computes an op.
type kernel struct {
	name string
	run  run
}

// Name implements backend.Kernel.
func (k kernel) Name() string { return k.name }

// Scratch implements backend.Kernel: the reference allocates as it goes.
func (k kernel) Scratch(*graph.Node, backend.Limits) int64 { return 0 }

// Bind implements backend.Kernel.
func (k kernel) Bind(n *graph.Node, a backend.Args) (backend.Launch, error) {
	return launch{text: k.name + " " + n.Out[0].Name, run: func(d *Device) { k.run(d, n, a) }}, nil
}

// SetExpert implements backend.ExpertLoader.
func (d *Device) SetExpert(weights []backend.Weight, number int, from []quant.Tensor, set func(error)) error {
	for i, w := range weights {
		all, ok := w.(weight)
		if !ok || number < 0 || number >= len(all) {
			return fmt.Errorf("ref: weight %d has no matrix %d", i, number)
		}
		t := from[i]
		if f := all[number].Format; t.Format != f {
			var err error
			if t, err = t.As(f); err != nil {
				return err
			}
		}
		all[number] = t
	}
	set(nil)
	return nil
}
