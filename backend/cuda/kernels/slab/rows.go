package slab

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// rowsMost is how many rows of x a launch of rows.h takes.
const rowsMost = 32

// rows are the kernels of rows.h, for 9 to 16 and to 32 rows.
type rows struct {
	kernels [2]*driver.Kernel
	blocks  int
}

// rowsParams mirrors RowsParams of rows.h.
type rowsParams struct {
	X               driver.Ptr
	Part            [3]part
	M, K, Parts, Fn int32
}

func newRows(l *kernels.Loader, lay layout, p Problem) (*rows, error) {
	r, names, tile, parts := &rows{}, [2]string{"rows16", "rows32"}, 2*tileRows, p.Parts
	if p.Gated {
		names, tile, parts = [2]string{"gated16", "gated32"}, tileRows, parts[:1]
	}
	for _, one := range parts {
		r.blocks += (one.N + tile - 1) / tile
	}
	for i, name := range names {
		var err error
		if r.kernels[i], err = l.Kernel(lay.kernels, name, 0); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *rows) launch(s *driver.Stream, from *few, m int) error {
	p := rowsParams{X: from.X, Part: from.Part, M: int32(m), K: from.K, Parts: from.Parts, Fn: from.Fn}
	k := r.kernels[0]
	if m > 16 {
		k = r.kernels[1]
	}
	return driver.Launch(s, k, driver.Grid{X: r.blocks, Threads: 256}, &p)
}
