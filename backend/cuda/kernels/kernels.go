// Package kernels loads the kernels of the folders below it: {gemm,attention,moe,norm,rope,sampling,quant}/VARIANT_ARCH. Each holds one family: .cu and .h
// files are the device's side, the Go package mirrors their parameters and knows the shapes of launches, and its tests compare with plain Go. A module
// is a .cu file, by its path from here without .cu.
package kernels

import (
	"sync"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/graph"
)

// Step mirrors Step of cuda.h: where the step's data lies on the device.
type Step struct {
	Counts, Positions, Slots, RowSeq, QStart, KVLen, Pages, LogitsIndices, Tiles driver.Ptr

	SeqPages  int32
	PageShift int32
}

// Places in Step.Counts.
const (
	CountTokens = iota
	CountSeqs
	CountLogits
	CountArrived // rows that have come to this device's experts, which kernels of the step count
	Counts
)

// Loader gives the kernels of one GPU, each loaded once, by itself.
type Loader struct {
	ctx       *driver.Context
	arch      int
	texts     func() (ptx.Texts, error) // all PTX for arch
	kernels   map[string]*driver.Kernel
	assembler *driver.Assembler
}

// NewLoader is a Loader for a GPU. arch is the compute capability to load kernels for: the GPU's own, or an older one, which tests
// use to see on one GPU what others run.
func NewLoader(ctx *driver.Context, arch int) *Loader {
	l := &Loader{ctx: ctx, arch: arch, kernels: map[string]*driver.Kernel{}, assembler: driver.NewAssembler(ctx)}
	l.expand()
	return l
}

// expand has the PTX expanded when it is needed next: by the assembler's workers, beside the binding of kernels.
func (l *Loader) expand() {
	l.texts = sync.OnceValues(func() (ptx.Texts, error) { return ptx.Open(l.arch) })
}

// Kernel loads a kernel of a module beside the caller: launches wait for it. shared is the dynamic shared memory it will be
// launched with, in bytes. The error may be another kernel's; see driver.Assembler.
func (l *Loader) Kernel(module, name string, shared int) (*driver.Kernel, error) {
	full := module + "/" + name
	k := l.kernels[full]
	if k == nil {
		texts := l.texts
		var err error
		k, err = l.assembler.Kernel(module, name, func() ([]byte, error) {
			all, err := texts()
			if err != nil {
				return nil, err
			}
			text, err := all.Module(module)
			if err != nil {
				return nil, err
			}
			return ptx.Only(text, name)
		})
		if err != nil {
			return nil, err
		}
		l.kernels[full] = k
	}
	k.Room(shared)
	return k, nil
}

// WhenSlow has slow called once, in another goroutine, when kernels take longer than a second, which they do until the driver has cached them.
func (l *Loader) WhenSlow(slow func()) { l.assembler.WhenSlow(slow) }

// Wait waits until all requested kernels can be launched; its error names one that failed.
func (l *Loader) Wait() error {
	l.expand() // 50 MB, which few kernels need after this
	return l.assembler.Wait()
}

// SMs is the number of the GPU's multiprocessors, which launches that fill it divide by; without a GPU, an H100's.
func (l *Loader) SMs() int {
	if l.ctx == nil {
		return 132
	}
	return l.ctx.SMs
}

// Hopper reports whether the kernels are those for sm_90a, with Hopper's own instructions. Only they wait for the kernel before
// them, so only they may run on a stream that overlaps.
func (l *Loader) Hopper() bool { return l.arch == 90 }

// Context is the GPU, for kernels that load matrices by TMA.
func (l *Loader) Context() *driver.Context { return l.ctx }

// Name joins a kernel's name and the element types it is made for: Name("rms", BF16) is "rms_bf16".
func Name(base string, types ...graph.Type) string {
	for _, t := range types {
		base += "_" + t.String()
	}
	return base
}

// Module is the module of GEMMs of a type: base for BF16, and one for all GEMMs of each 8-bit type.
func Module(base string, t graph.Type) string {
	switch t {
	case graph.F8:
		return "gemm/w8a8/f8"
	case graph.I8:
		return "gemm/w8a8/i8"
	}
	return base
}

// Pairs is how many pairs of bytes k numbers of a type take, which is how kernels for products count their depth.
func Pairs(t graph.Type, k int) int { return int(t.RowBytes(k) / 2) }

// Plain reports whether there are kernels for activations of this type.
func Plain(t graph.Type) bool { return t == graph.F32 || t == graph.BF16 }

// Close unloads all kernels; none may be running.
func (l *Loader) Close() error { return l.assembler.Close() }
