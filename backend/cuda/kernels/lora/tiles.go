package lora

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// TilesParams mirrors TilesParams of params.h. RankBound is 16 times the passes that a launch computes.
type TilesParams struct {
	Params
	Hidden, Arrived driver.Ptr // densesm90.Hidden; as in PlanesParams
	Passes, Room    int32      // of densesm90.Hidden
}

// TilesKernel stores h of rows tile by tile, for densesm90.AdaptedKernel.
type TilesKernel struct{ store *driver.Kernel }

// NewTiles finds it, for matrices that FitsDelta.
func NewTiles(l *kernels.Loader) (k TilesKernel, err error) {
	k.store, err = l.Kernel("lora/mma", "lora_tiles_mma", 0)
	return k, err
}

// Launch stores h of so many tiles, of whose rows each is of the same 16 aligned ones.
func (k TilesKernel) Launch(s *driver.Stream, tiles int, p *TilesParams) error {
	p.Splits = int32(splits(tiles, int(p.Targets)))
	return driver.Launch(s, k.store, driver.Grid{X: tiles, Y: int(p.Targets) * passesOf(int(p.RankBound)), Z: int(p.Splits), Threads: threads}, p)
}
