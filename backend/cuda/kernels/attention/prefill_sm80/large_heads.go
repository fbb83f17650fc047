package prefillsm80

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
)

// largeHeadsParams mirrors LargeHeadsParams of large_heads.cu.
type largeHeadsParams struct {
	Maps                                      prefillsm90.Maps
	Step                                      kernels.Step
	Q, Y, Sinks                               driver.Ptr
	Heads, KVHeads, KSize, VSize, Window, Box int32
	Scale, Softcap                            float32
	Bidirectional                             int32
	_                                         [13]int32 // the size is a multiple of 64
}

const (
	largeHeadsKeys    = 80
	largeHeadsThreads = 384
	largeHeadsShared  = 1024 + MaxSize*2*(rows+4*largeHeadsKeys) // queries, and two tiles of keys and of values
)

// LargeHeads is a problem bound to Hopper's kernel for heads of more than 128, which takes what Kernel takes.
type LargeHeads struct {
	order
	kernel *driver.Kernel
	base   largeHeadsParams
}

// NewLargeHeads binds a problem.
func NewLargeHeads(l *kernels.Loader, p prefillsm90.Problem) (*LargeHeads, error) {
	name := "prefill256"
	if p.Softcap != 0 {
		name += "_cap"
	}
	maps, box, err := p.Maps(l, largeHeadsKeys)
	if err != nil {
		return nil, err
	}
	k := &LargeHeads{order: orderOf(l, p), base: largeHeadsParams{
		Maps: maps, Q: p.Q, Y: p.Y, Sinks: p.Sinks, Heads: int32(p.Heads), KVHeads: int32(p.KVHeads), KSize: int32(p.KSize), VSize: int32(p.VSize),
		Window: int32(p.Window), Box: int32(box), Scale: float32(p.Scale), Softcap: float32(p.Softcap),
	}}
	if p.Bidirectional {
		k.base.Bidirectional = 1
	}
	k.kernel, err = l.Kernel("attention/prefill_sm80/large_heads", kernels.Name(name, p.Type), largeHeadsShared)
	return k, err
}

// Launch computes a step's tiles, as Kernel's does.
func (k *LargeHeads) Launch(s *driver.Stream, step *kernels.Step, tiles, tokens int) error {
	p := k.base
	p.Step = *step
	grid := k.grid(tiles, tokens)
	grid.Threads, grid.Shared = largeHeadsThreads, largeHeadsShared
	return driver.Launch(s, k.kernel, grid, &p)
}
