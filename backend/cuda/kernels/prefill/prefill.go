// Package prefill is attention of sequences with many new tokens over the paged cache, on Hopper's tensor cores: bf16, heads of
// up to 128.
package prefill

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// params mirrors PrefillParams of prefill.cu.
type params struct {
	K, V                                      driver.TensorMap
	Step                                      kernels.Step
	Q, Y                                      driver.Ptr
	Heads, KVHeads, KSize, VSize, Window, Box int32
	Scale, Softcap                            float32
	_                                         [6]uint64 // the size is a multiple of 64
}

// Problem is what a launch computes.
type Problem struct {
	Q, Cache, Y                  driver.Ptr
	Heads, KVHeads, KSize, VSize int
	Pages, PageSize              int // of the cache
	Window                       int
	Scale, Softcap               float64
	Type                         graph.Type // of the cache: BF16 or F16
}

const (
	// TileRows is how many rows of one sequence a block takes.
	TileRows = 128

	keys    = 128
	stages  = 2
	threads = 384
)

// Fits reports whether the copy engine can fetch heads of these sizes. Pages must hold eight tokens at least: that is what
// its swizzle repeats after.
func Fits(kSize, vSize int) bool {
	return kSize%8 == 0 && vSize%8 == 0 && kSize <= 128 && vSize <= 128
}

// Kernel is a problem bound to its kernel.
type Kernel struct {
	kernel *driver.Kernel
	base   params
	shared int
}

// New binds a problem.
func New(l *kernels.Loader, p Problem) (*Kernel, error) {
	name, halves := "prefill128", 2
	if max(p.KSize, p.VSize) <= 64 {
		name, halves = "prefill64", 1
	}
	if p.Softcap != 0 {
		name += "_cap"
	}
	k := &Kernel{shared: 1024 + halves*keys*128*(1+2*stages)}
	var err error
	if k.kernel, err = l.Kernel("prefill", kernels.Name(name, p.Type), k.shared); err != nil {
		return nil, err
	}
	box, kLen, vLen := min(p.PageSize, keys), p.KVHeads*p.KSize, p.KVHeads*p.VSize
	k.base = params{
		Q: p.Q, Y: p.Y, Heads: int32(p.Heads), KVHeads: int32(p.KVHeads), KSize: int32(p.KSize), VSize: int32(p.VSize),
		Window: int32(p.Window), Box: int32(box), Scale: float32(p.Scale), Softcap: float32(p.Softcap),
	}
	page := 2 * p.PageSize * (kLen + vLen)
	if k.base.K, err = l.Context().PlanesMap(p.Cache, p.Pages, page, p.PageSize, kLen, 2*kLen, box, 64); err != nil {
		return nil, err
	}
	k.base.V, err = l.Context().PlanesMap(p.Cache+driver.Ptr(2*p.PageSize*kLen), p.Pages, page, p.PageSize, vLen, 2*vLen, box, 64)
	return k, err
}

// Launch computes a step's tiles: Step.Tiles has pairs of sequence and first row, TileRows apart.
func (k *Kernel) Launch(s *driver.Stream, step *kernels.Step, tiles int) error {
	p := k.base
	p.Step = *step
	return driver.Launch(s, k.kernel, driver.Grid{X: int(p.Heads), Y: tiles, Threads: threads, Shared: k.shared}, &p)
}
