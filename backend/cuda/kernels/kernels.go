// Package kernels loads the kernels of the folders below it. Each folder holds one family: NAME.cu is the device's side,
// NAME.go mirrors its parameters and knows the shapes of its launches, NAME_test.go compares it with plain Go.
package kernels

import (
	"errors"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/graph"
)

// Step mirrors Step of cuda.h: where the step's data lies on the device.
type Step struct {
	Counts, Tokens, Positions, Slots, RowSeq, QStart, KVLen, RopeLen, Pages, Picked, Tiles driver.Ptr

	SeqPages  int32
	PageShift int32
}

// Places in Step.Counts.
const (
	CountTokens = iota
	CountSeqs
	CountLogits
	Counts
)

// Loader gives the kernels of one GPU, each loaded once, as a module of its own.
type Loader struct {
	ctx     *driver.Context
	arch    int
	texts   map[string][]byte // PTX of the folders that were asked for
	modules map[string]*driver.Module
}

// NewLoader is a Loader for a GPU. arch is the compute capability to load kernels for: the GPU's own, or an older one, which tests
// use to see on one GPU what others run.
func NewLoader(ctx *driver.Context, arch int) *Loader {
	return &Loader{ctx: ctx, arch: arch, texts: map[string][]byte{}, modules: map[string]*driver.Module{}}
}

// Kernel loads a kernel of a folder, by itself; shared is the dynamic shared memory it will be launched with, in bytes.
func (l *Loader) Kernel(folder, name string, shared int) (*driver.Kernel, error) {
	full := folder + "/" + name
	m := l.modules[full]
	if m == nil {
		text, err := l.text(folder)
		if err != nil {
			return nil, err
		}
		if text, err = ptx.Only(text, name); err != nil {
			return nil, err
		}
		if m, err = l.ctx.LoadPTX(full, text); err != nil {
			return nil, err
		}
		l.modules[full] = m
	}
	return m.Kernel(name, shared)
}

// text is the PTX of a folder, expanded once.
func (l *Loader) text(folder string) (text []byte, err error) {
	if l.texts[folder] == nil {
		l.texts[folder], err = ptx.Find(folder, l.arch)
	}
	return l.texts[folder], err
}

// SMs is the number of the GPU's multiprocessors, which launches that fill it divide by.
func (l *Loader) SMs() int { return l.ctx.SMs }

// Hopper reports whether the kernels are those for sm_90a, with Hopper's own instructions. Only they wait for the kernel before
// them, so only they may run on a stream that overlaps.
func (l *Loader) Hopper() bool { return l.arch == 90 }

// Context is the GPU, for kernels that describe matrices to its copy engine.
func (l *Loader) Context() *driver.Context { return l.ctx }

// Name joins a kernel's name and the element types it is made for: Name("rms", BF16) is "rms_bf16".
func Name(base string, types ...graph.Type) string {
	for _, t := range types {
		base += "_" + t.String()
	}
	return base
}

// Folder is the folder whose module multiplies numbers of a type: base for BF16, and one for all products of each type of eight bits.
func Folder(base string, t graph.Type) string {
	switch t {
	case graph.F8:
		return "f8"
	case graph.I8:
		return "i8"
	}
	return base
}

// Pairs is how many pairs of bytes k numbers of a type take, which is how kernels for products count their depth.
func Pairs(t graph.Type, k int) int { return int(t.RowBytes(k) / 2) }

// Plain reports whether there are kernels for activations of this type.
func Plain(t graph.Type) bool { return t == graph.F32 || t == graph.BF16 }

// Close unloads all modules; no kernel may be running.
func (l *Loader) Close() error {
	var errs []error
	for _, m := range l.modules {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
