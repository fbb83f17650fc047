package ridge

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/device"
)

// Runtime is what the models of one process share: the threads of the CPU, whose steps run one after the other, the GPUs, and the memory of
// both: what is reserved for one model is not free for the next. Models are loaded and closed in any order, by any goroutine.
type Runtime struct {
	devices devices
	placing sync.Mutex // held while a model divides memory that others want too

	options RuntimeOptions

	mu       sync.Mutex
	reserved map[string]int64 // bytes that a model may not have, by the device's name: those reserved for other models, and what is beyond RuntimeOptions.Memory
	models   int              // loaded, or being loaded
	closed   bool
}

// devices opens what models compute on: device.Shared, or in simulations devices that fail.
type devices interface {
	Open(device.Options) (backend.Device, error)
	Close() error
}

// RuntimeOptions says what a Runtime may use. The zero value is a good choice.
type RuntimeOptions struct {
	Threads int   // CPU threads; 0: as many as the process may use
	Memory  int64 // bytes that all models together may take of a device; 0: what is free
	// CachePart is how much of the memory that is free beside its weights the cache of a model without Options.KV takes at most, above 0 and up to 1, so that others
	// find room beside it; 0: nine tenths.
	CachePart float64
}

// NewRuntime opens nothing yet: a device is opened when the first model asks for it.
func NewRuntime(o RuntimeOptions) (*Runtime, error) {
	if err := (Options{Threads: o.Threads}).check(); err != nil {
		return nil, err
	}
	if o.Memory < 0 || !(o.CachePart >= 0 && o.CachePart <= 1) {
		return nil, fmt.Errorf("ridge: a Runtime with Memory of %d bytes and a CachePart of %g; 0 or more and 0 to 1 are possible", o.Memory, o.CachePart)
	}
	return &Runtime{devices: device.NewShared(o.Threads), options: o, reserved: map[string]int64{}}, nil
}

// Load is the package's Load, on the devices and in the memory of the Runtime. Options.Threads must be 0: the Runtime has chosen.
func (r *Runtime) Load(path string, o Options) (*Model, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Threads != 0 {
		return nil, errors.New("ridge: Threads is set in the Options of a model that shares a Runtime; set it in RuntimeOptions")
	}
	o.cachePart = r.options.CachePart
	return r.load(path, o)
}

// withhold keeps what is beyond RuntimeOptions.Memory from the models on a device.
func (r *Runtime) withhold(dev backend.Device) error {
	m, ok := dev.(backend.MemoryInfo)
	if !ok || r.options.Memory == 0 {
		return nil
	}
	_, total, err := m.Memory()
	if err != nil {
		return fmt.Errorf("ridge: %w", err)
	}
	name := dev.Info().Name
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, done := r.reserved[name]; !done {
		r.reserved[name] = max(0, total-r.options.Memory)
	}
	return nil
}

// load is Load with options that have been checked.
func (r *Runtime) load(path string, o Options) (*Model, error) {
	b, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := r.enter(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	m := &Model{name: b.Name, dir: b, runtime: r}
	_, _ = rand.Read(m.secret[:]) // never fails (crypto/rand)
	m.languages = sync.OnceValues(m.newLanguages)
	if err := m.start(o); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close ends the threads. It refuses while models are loaded.
func (r *Runtime) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.models > 0 {
		return errors.New("ridge: the Runtime has models that are not closed; close them first")
	}
	r.closed = true
	return r.devices.Close()
}

// enter counts a model that is about to be loaded; leave takes it back.
func (r *Runtime) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("ridge: the Runtime is closed")
	}
	r.models++
	return nil
}

// leave gives back what was reserved for a model on a device.
func (r *Runtime) leave(name string, bytes int64) {
	r.giveBack(name, bytes)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.models--
}

// giveBack gives back what place has reserved beside a model.
func (r *Runtime) giveBack(name string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved[name] -= bytes
}

// reservedOn is how many bytes of a device a model may not have.
func (r *Runtime) reservedOn(name string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reserved[name]
}

// place has f load a model's numbers on a device where so many bytes are reserved for other models, and notes how many more there are then. One
// model at a time: two that are loaded together must not both find the same memory free.
func (r *Runtime) place(name string, f func(reserved int64) (bytes int64, err error)) (int64, error) {
	r.placing.Lock()
	defer r.placing.Unlock()
	n, err := f(r.reservedOn(name))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved[name] += n
	return n, err
}
