package flash

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/prefill"
)

// wideParams mirrors WideParams of wide.cu.
type wideParams struct {
	K, V, KRun, VRun                          driver.TensorMap
	Step                                      kernels.Step
	Q, Y, Sinks                               driver.Ptr
	Heads, KVHeads, KSize, VSize, Window, Box int32
	Scale, Softcap                            float32
	Both                                      int32
	_                                         [9]int32 // the size is a multiple of 64
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
func NewWide(l *kernels.Loader, p prefill.Problem) (*Wide, error) {
	name := "wide"
	if p.Softcap != 0 {
		name += "_cap"
	}
	box, kLen, vLen := min(p.PageSize, wideKeys&-wideKeys), p.KVHeads*p.KSize, p.KVHeads*p.VSize
	k := &Wide{order: orderOf(l, p), base: wideParams{
		Q: p.Q, Y: p.Y, Sinks: p.Sinks, Heads: int32(p.Heads), KVHeads: int32(p.KVHeads), KSize: int32(p.KSize), VSize: int32(p.VSize),
		Window: int32(p.Window), Box: int32(box), Scale: float32(p.Scale), Softcap: float32(p.Softcap),
	}}
	if p.Both {
		k.base.Both = 1
	}
	var err error
	if k.kernel, err = l.Kernel("wide", kernels.Name(name, p.Type), wideShared); err != nil {
		return nil, err
	}
	page, values := p.PageSize*k.token, p.Cache+driver.Ptr(2*p.PageSize*kLen)
	for _, m := range []struct {
		to           *driver.TensorMap
		at           driver.Ptr
		length, many int
	}{
		{&k.base.K, p.Cache, kLen, 1}, {&k.base.V, values, vLen, 1}, {&k.base.KRun, p.Cache, kLen, wideKeys / box}, {&k.base.VRun, values, vLen, wideKeys / box},
	} {
		if *m.to, err = l.Context().PlanesMap(m.at, p.Pages, page, p.PageSize, m.length, 2*m.length, m.many, box, 64); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Launch computes a step's tiles, as Kernel's does.
func (k *Wide) Launch(s *driver.Stream, step *kernels.Step, tiles, tokens int) error {
	p := k.base
	p.Step = *step
	grid := k.grid(tiles, tokens)
	grid.Threads, grid.Shared = wideThreads, wideShared
	return driver.Launch(s, k.kernel, grid, &p)
}
