package lora

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// PlanesParams mirrors PlanesParams of params.h.
type PlanesParams struct {
	Params
	Planes, Arrived     driver.Ptr // densesm90.Planes; ArrivedBytes of zeros, which they are again after each launch
	Steps, Passes, Rows int32      // densesm90.PlanesKernel.Steps of the planes and passes that there are; of ranks; densesm90.Planes
	Sides               int32      // 2 where targets are gate and up, 1 otherwise
}

// ArrivedBytes is what PlanesParams.Arrived takes: a counter for each tile, target and pass of a launch whose blocks share columns of A.
const ArrivedBytes = 4 * fewBlocks / 2 * DeltaRank / PassRanks

// ClearParams is what is emptied: N times 16 bytes from At on.
type ClearParams struct {
	At driver.Ptr
	N  int64
}

// PlanesKernels store h of rows in planes, for densesm90.PlanesKernel.
type PlanesKernels struct{ store, clear *driver.Kernel }

// NewPlanes finds them, for matrices that FitsDelta.
func NewPlanes(l *kernels.Loader) (k PlanesKernels, err error) {
	if k.store, err = l.Kernel("lora/mma", "lora_planes_mma", 0); err != nil {
		return k, err
	}
	k.clear, err = l.Kernel("lora/mma", "lora_clear", 0)
	return k, err
}

// Launch stores h of the rows of so many tiles. Other numbers stay as they are.
func (k PlanesKernels) Launch(s *driver.Stream, tiles int, p *PlanesParams) error {
	p.Splits = int32(splits(tiles, int(p.Targets)))
	return driver.Launch(s, k.store, driver.Grid{X: tiles, Y: int(p.Targets * p.Passes), Z: int(p.Splits), Threads: threads}, p)
}

// Clear puts a launch on the stream that writes so many bytes of zeros, a multiple of 16.
func (k PlanesKernels) Clear(s *driver.Stream, at driver.Ptr, bytes int64) error {
	p := &ClearParams{at, bytes / 16}
	return driver.Launch(s, k.clear, driver.Grid{X: int(min((p.N+threads-1)/threads, fewBlocks)), Threads: threads}, p)
}
