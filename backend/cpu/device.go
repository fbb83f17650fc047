// Package cpu runs graphs on the processor: a pool of threads that run the program in lockstep, each computing
// its share of every launch.
package cpu

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/threads"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Device is the processor with a number of threads.
type Device struct {
	tier            gemm.Tier
	found           threads.Topology
	deterministic   bool // results are batch-invariant: they do not depend on how many rows there are
	vec             vec.Ops
	pool            *workers
	sharesPool      bool // with the device that closes it
	batch           *backend.Batch
	schedule        *schedule     // of the step under way
	steps           uint32        // run so far, this one included
	step            func(*worker) // runs the schedule; made once, so that a step allocates nothing
	lentJob         func(int)     // what RunThreads was given
	runLent         func(*worker) // runs lentJob; made once, like step
	packedMemory    []*memory     // weights in the kernels' layout
	freeRoom        []byte        // free part of the last of them
	reserved        int64         // bytes of it for weights that are placed, and not prepared for a matmul yet
	unpacked        []*matrix     // matrices that are not packed yet
	packBudget      int64         // bytes of weights that a step may pack
	packBufferBytes int64         // bytes of the largest block of any matrix

	splits map[splitShape]*splitKV // how the step's attention is divided, for each shape of it
}

// Options chooses how much of the processor to use.
type Options struct {
	Threads int    // 0: as many as the process may use
	Tier    string // instructions to use at most, by the name of a gemm.Tier; "": the best there are

	// Deterministic makes what a sequence gets independent of the sequences beside it, and of how its prompt is cut into
	// steps, to the last bit. Of weights in block formats Q8_0 always gives that; with others, and with floats, prompts take a fifth to a
	// third longer for it: matmuls of many rows are not grouped (see gemm.GroupedActs), and floats are not interleaved.
	Deterministic bool
}

// maxThreads is the most threads of a Device, far above the processors of any machine.
const maxThreads = 4096

// New is the processor as a device.
func New(o Options) (*Device, error) {
	tier, err := gemm.Choose(o.Tier)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if o.Threads > maxThreads {
		return nil, fmt.Errorf("cpu: %d threads; at most %d are possible", o.Threads, maxThreads)
	}
	found, n := threads.Detect(), o.Threads
	if n <= 0 {
		n = found.Threads(runtime.GOMAXPROCS(0))
	}
	d := &Device{tier: tier, deterministic: o.Deterministic, found: found, pool: newWorkers(tier, n, found)}
	d.start()
	return d, nil
}

// Share is a second device on the same threads, for another model: their steps run one after the other. It must be closed before d.
func (d *Device) Share(deterministic bool) *Device {
	s := &Device{tier: d.tier, deterministic: deterministic, found: d.found, pool: d.pool, sharesPool: true}
	s.start()
	return s
}

// start chooses the vector kernels and makes the function that a step runs.
func (d *Device) start() {
	d.vec, d.splits = vec.For(d.tier), map[splitShape]*splitKV{}
	d.step = func(w *worker) {
		for i := 0; i < len(d.schedule.launches); i += d.schedule.fused[i] {
			if d.schedule.wait[i] {
				w.sync()
			}
			d.runFused(w, i)
		}
	}
	d.runLent = func(w *worker) { d.lentJob(w.id) }
}

// Info implements backend.Device.
func (d *Device) Info() backend.Info {
	n := d.pool.N()
	return backend.Info{Name: "cpu", Detail: fmt.Sprintf("%s %s, %d threads%v", runtime.GOARCH, d.tier, n, d.found), Memory: capacity(), Threads: n, Q8: true, BF16: !d.deterministic && gemm.ActFormatOf(d.tier, quant.BF16) == gemm.BFloat16}
}

// smallStart is how many bytes of an allocation stay in small pages: all that a short conversation uses of a layer's KV cache.
// Filling large pages of every layer with zeroes took 75 ms of the time to the first token.
const smallStart = 2 << 20

// Alloc implements backend.Device.
func (d *Device) Alloc(n int64, what string) (backend.Buffer, error) {
	if n < 0 || n > 1<<46 {
		return backend.Buffer{}, fmt.Errorf("cpu: %d bytes for %s", n, what)
	}
	m, err := newMemory(n, smallStart)
	if err != nil {
		return backend.Buffer{}, fmt.Errorf("cpu: %s: %w", what, err)
	}
	return backend.Buffer{Mem: m, Len: n}, nil
}

// Free implements backend.Device.
func (d *Device) Free(b backend.Buffer) {
	if m, ok := b.Mem.(*memory); ok {
		_ = m.free() // of memory that was mapped, which cannot fail
	}
}

// Place implements backend.Device. Matrices stay in the file until a matmul packs them; vectors are small
// and are decoded to F32.
func (d *Device) Place(w *graph.Weight, matrices []quant.Tensor) (backend.Weight, error) {
	if w.Slots != nil {
		return make(slots, w.Slots.Count), nil
	}
	if w.Stack == (graph.Axis{}) {
		return d.place(w, matrices[0])
	}
	var all stack
	for _, t := range matrices {
		one, err := d.place(w, t)
		if err != nil {
			return nil, err
		}
		if m, ok := one.(*matrix); ok {
			m.matmulsOnly = true
		}
		all = append(all, one)
	}
	return all, nil
}

// place makes one matrix of a weight resident.
func (d *Device) place(w *graph.Weight, t quant.Tensor) (backend.Weight, error) {
	if t.Rows > 1 {
		if t.Format != w.Format {
			var err error
			if t, err = t.As(w.Format); err != nil {
				return nil, fmt.Errorf("cpu: %w", err)
			}
		}
		d.reserved += packedSize(t)
		return &matrix{Tensor: t}, nil
	}
	v := make(vector, t.Cols)
	quant.Decode(t.Format, v, t.Data)
	return v, nil
}

// vector is a weight of one row, decoded.
type vector []float32

// Bytes implements backend.Weight.
func (v vector) Bytes() int64 { return 4 * int64(len(v)) }

// Run implements backend.Device.
func (d *Device) Run(launches []backend.Launch, b *backend.Batch) error {
	if len(launches) == 0 {
		return nil
	}
	d.schedule, d.batch = scheduleOf(launches), b
	d.count()
	d.pool.run(d.step)
	d.advanceStages()
	return nil
}

// RunThreads implements backend.ThreadLender.
func (d *Device) RunThreads(job func(thread int)) {
	d.lentJob = job
	d.pool.run(d.runLent)
}

// count begins a step; 0 is no step's number.
func (d *Device) count() {
	d.steps = max(1, d.steps+1)
	for _, m := range d.unpacked {
		m.next = m.stage // undo what an aborted step has left
	}
}

// Read implements backend.Device.
func (d *Device) Read(dst []float32, v *graph.Value, b backend.Buffer, from, n int) error {
	rows, err := d.View(v, b, from+n)
	if err != nil {
		return err
	}
	if width := v.Axis.Len(); copy(dst, rows[from*width:]) < n*width {
		return fmt.Errorf("cpu: %d rows of %s do not fit in %d numbers", n, v.Name, len(dst))
	}
	return nil
}

// View implements backend.Viewer.
func (d *Device) View(v *graph.Value, b backend.Buffer, n int) ([]float32, error) {
	if v.Type != graph.F32 || n < 0 || int64(n)*v.RowBytes() > b.Len {
		return nil, fmt.Errorf("cpu: %d rows of %s (%s) cannot be read as float32", n, v.Name, v.Type)
	}
	return floats(b)[:n*v.Axis.Len()], nil
}

// Write implements backend.Writer.
func (d *Device) Write(v *graph.Value, b backend.Buffer, rows []float32, n int) error {
	to, err := d.View(v, b, n)
	if err != nil {
		return err
	}
	if copy(to, rows) < len(to) {
		return fmt.Errorf("cpu: %d rows of %s are not in %d numbers", n, v.Name, len(rows))
	}
	return nil
}

// Copy implements backend.Device.
func (d *Device) Copy(dst, src backend.Buffer) error {
	copy(raw(dst), raw(src))
	return nil
}

// Close implements backend.Device.
func (d *Device) Close() error {
	if !d.sharesPool {
		d.pool.Close()
	}
	var all []error
	for _, m := range d.packedMemory {
		all = append(all, m.free())
	}
	d.packedMemory = nil
	return errors.Join(all...)
}

// launch is a bound kernel: every worker calls run and does its share.
type launch struct {
	dev       *Device
	text      string
	run       func(w *worker, b *backend.Batch)
	accesses  []access
	rowBlocks bool          // run computes the current row block only
	weights   *gemm.Weights // of a matmul; nil otherwise
	linear    *linear       // a matmul whose input is there as a whole; nil: it is something else
	lora      *lora         // what adapters change; nil likewise
	q8        scaleGroups   // of what it makes or takes in Q8
	schedules []*schedule   // of the lists that begin with it
}

// String implements backend.Launch.
func (l *launch) String() string { return l.text }
