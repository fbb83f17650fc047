// Package prefillsm90 is FlashAttention of prompts (many new tokens a sequence) over the paged KV cache on Hopper, by wgmma and TMA: bf16, heads of
// up to 128.
package prefillsm90

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// params mirrors PrefillParams of tile_scheduler.h.
type params struct {
	Q                                          driver.TensorMap
	Maps                                       Maps
	Step                                       kernels.Step
	Y, Sinks, TileCounter                      driver.Ptr
	Heads, KVHeads, KSize, VSize, Window, Box  int32
	Scale, Softcap                             float32
	Bidirectional, Tiles, Items, HeadsTogether int32
	_                                          [5]uint64 // the size is a multiple of 64
}

// Problem is what a launch computes.
type Problem struct {
	Q, Y                         driver.Ptr // [Tokens, Heads × KSize] and [Tokens, Heads × VSize] bf16
	Cache                        driver.Ptr // [Pages] of PageSize tokens' keys, [KVHeads × KSize] each, and then their values
	Sinks                        driver.Ptr // [Heads] float32: scores without a key; or 0
	Heads, KVHeads, KSize, VSize int
	Tokens                       int        // rows that Q has room for
	Pages, PageSize              int        // of the cache
	Window                       int        // keys that a query sees, its own the last; 0: all
	Bidirectional                bool       // queries attend to later keys too
	Scale, Softcap               float64    // of scores; Softcap 0: none
	Type                         graph.Type // of the cache: BF16 or F16
	TileCounter                  driver.Ptr // an int32, 0 between launches
}

const (
	// TileRows is how many rows of one sequence a block takes.
	TileRows = 128

	keys       = 128
	tileStages = 2 // tiles whose queries a block has in shared memory (double buffer)
	threads    = 384
)

// Fits reports whether TMA can load heads of these sizes. Pages must hold eight tokens at least: that is what its swizzle repeats after.
func Fits(kSize, vSize int) bool {
	return kSize%8 == 0 && vSize%8 == 0 && kSize <= 128 && vSize <= 128
}

// Kernel is a problem bound to its kernel.
type Kernel struct {
	kernel *driver.Kernel
	base   params
	shared int
	sms    int
}

// New binds a problem.
func New(l *kernels.Loader, p Problem) (*Kernel, error) {
	name, halves, stages := "prefill128", 2, 2
	if max(p.KSize, p.VSize) <= 64 {
		name, halves, stages = "prefill64", 1, 4
	}
	if p.Softcap != 0 {
		name += "_cap"
	}
	k := &Kernel{shared: 1024 + halves*keys*128*(tileStages+2*stages), sms: l.SMs()}
	maps, box, err := p.Maps(l, keys)
	if err != nil {
		return nil, err
	}
	k.base = params{
		Maps: maps, Y: p.Y, Sinks: p.Sinks, TileCounter: p.TileCounter, Heads: int32(p.Heads), KVHeads: int32(p.KVHeads), KSize: int32(p.KSize), VSize: int32(p.VSize),
		Window: int32(p.Window), Box: int32(box), Scale: float32(p.Scale), Softcap: float32(p.Softcap),
	}
	if p.Bidirectional {
		k.base.Bidirectional = 1
	}
	if k.base.Q, err = l.Context().PlanesMap(p.Q, p.Tokens, 2*p.Heads*p.KSize, p.Heads, p.KSize, 2*p.KSize, TileRows, 1, 64); err != nil {
		return nil, err
	}
	k.kernel, err = l.Kernel("attention/prefill_sm90/prefill", kernels.Name(name, p.Type), k.shared)
	return k, err
}

// kept is how many bytes of keys and values should be in use at a time: what stays in the L2 cache, whose halves both
// keep what both sides of the GPU read.
const kept = 20 << 20

// Launch computes a step's tiles: Step.Tiles has pairs of sequence and first row, TileRows apart. tokens is how many keys their
// sequences have together.
func (k *Kernel) Launch(s *driver.Stream, step *kernels.Step, tiles, tokens int) error {
	p := k.base
	p.Step = *step
	kvHeads, all := int(p.KVHeads), 2*tokens*int(p.KVHeads*(p.KSize+p.VSize))
	passes := max(1, min(kvHeads, (all+kept-1)/kept))
	for kvHeads%passes != 0 {
		passes++
	}
	p.HeadsTogether, p.Tiles, p.Items = p.Heads/int32(passes), int32(tiles), p.Heads*int32(tiles)
	return driver.Launch(s, k.kernel, driver.Grid{X: min(k.sms, int(p.Items)), Y: 1, Z: 1, Threads: threads, Shared: k.shared}, &p)
}
