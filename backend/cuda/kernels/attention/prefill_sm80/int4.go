package prefillsm80

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
	"github.com/ridge-llm/ridge/graph"
)

// int4Params mirrors Int4PrefillParams of int4.cu.
type int4Params struct {
	params
	Newest Newest
}

// Newest is a residual cache of IEEE halves: pages of 2^Shift tokens, and [S × SeqPages] int32 that say which are a sequence's.
type Newest struct {
	Cache, Pages    driver.Ptr
	SeqPages, Shift int32
}

// Int4 is attention of prompts over a cache in four bits, on any GPU: a problem whose cache is dequantised pages, bound to its kernel.
type Int4 struct {
	variant
	order
	kernel *driver.Kernel
	base   params
}

// NewInt4 binds a problem; its pages have MinPage tokens at least, and so do those of the residual cache.
func NewInt4(l *kernels.Loader, p prefillsm90.Problem) (*Int4, error) {
	f := variantOf(max(p.KSize, p.VSize), l.Context().SharedBlock >= roomy)
	kernel, err := l.Kernel("attention/prefill_sm80/int4", kernels.Name(f.name, graph.I4), f.shared())
	return &Int4{variant: f, order: orderOf(l, p), kernel: kernel, base: baseOf(p)}, err
}

// Launch computes a step's tiles, as Kernel's does.
func (k *Int4) Launch(s *driver.Stream, step *kernels.Step, newest Newest, tiles, tokens int) error {
	p := int4Params{params: k.base, Newest: newest}
	p.Step = *step
	grid := k.grid(tiles, tokens)
	grid.Threads, grid.Shared = k.threads, k.shared()
	return driver.Launch(s, k.kernel, grid, &p)
}
