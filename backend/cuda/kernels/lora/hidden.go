package lora

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// HiddenParams mirrors HiddenParams of params.h.
type HiddenParams struct {
	Params
	Hidden, Arrived driver.Ptr // densesm90.Hidden; ArrivedBytes of zeros, which they are again after each launch
	Passes, Room    int32      // of 16 ranks; rows that Hidden has room for
}

// ArrivedBytes is what HiddenParams.Arrived takes: a counter for each tile, target and pass of a launch whose blocks share columns of A.
const ArrivedBytes = 4 * fewBlocks / 2 * DeltaRank / passRanks

// NewHidden finds the kernel that stores h of rows for densesm90.AdaptedKernel, of matrices that FitsDelta.
func NewHidden(l *kernels.Loader) (*driver.Kernel, error) {
	return l.Kernel("lora/mma", "lora_hidden_mma", 0)
}

// LaunchHidden stores h of the rows of so many tiles. Other numbers stay as they are.
func LaunchHidden(s *driver.Stream, k *driver.Kernel, tiles int, p *HiddenParams) error {
	p.Splits = int32(splits(tiles, int(p.Targets)))
	return driver.Launch(s, k, driver.Grid{X: tiles, Y: int(p.Targets * p.Passes), Z: int(p.Splits), Threads: threads}, p)
}
