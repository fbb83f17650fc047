package prefillsm80

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
)

// wideParams mirrors WideParams of wide.cu.
type wideParams struct {
	Maps                                      prefillsm90.Maps
	Step                                      kernels.Step
	Q, Y, Sinks                               driver.Ptr
	Heads, KVHeads, KSize, VSize, Window, Box int32
	Scale, Softcap                            float32
	Both                                      int32
	_                                         [13]int32 // the size is a multiple of 64
}

const (
	wideKeys    = 80
	wideThreads = 384
	wideShared  = 1024 + MaxSize*2*(rows+4*wideKeys) // queries, and two tiles of keys and of values
)

// Wide is a problem bound to Hopper's kernel for heads of more than 128, which takes what Kernel takes.
type Wide struct {
	order
	kernel *driver.Kernel
	base   wideParams
}

// NewWide binds a problem.
func NewWide(l *kernels.Loader, p prefillsm90.Problem) (*Wide, error) {
	name := "wide"
	if p.Softcap != 0 {
		name += "_cap"
	}
	maps, box, err := p.Maps(l, wideKeys)
	if err != nil {
		return nil, err
	}
	k := &Wide{order: orderOf(l, p), base: wideParams{
		Maps: maps, Q: p.Q, Y: p.Y, Sinks: p.Sinks, Heads: int32(p.Heads), KVHeads: int32(p.KVHeads), KSize: int32(p.KSize), VSize: int32(p.VSize),
		Window: int32(p.Window), Box: int32(box), Scale: float32(p.Scale), Softcap: float32(p.Softcap),
	}}
	if p.Both {
		k.base.Both = 1
	}
	k.kernel, err = l.Kernel("wide", kernels.Name(name, p.Type), wideShared)
	return k, err
}

// Launch computes a step's tiles, as Kernel's does.
func (k *Wide) Launch(s *driver.Stream, step *kernels.Step, tiles, tokens int) error {
	p := k.base
	p.Step = *step
	grid := k.grid(tiles, tokens)
	grid.Threads, grid.Shared = wideThreads, wideShared
	return driver.Launch(s, k.kernel, grid, &p)
}
