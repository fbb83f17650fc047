package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// rowsMost is how many rows of x a launch of rows.h takes.
const rowsMost = 32

// rows are the kernels of rows.h, for 9 to 16 and to 32 rows of a problem of one part.
type rows [2]*driver.Kernel

// rowsParams mirrors RowsParams of rows.h.
type rowsParams struct {
	X    driver.Ptr
	Part part
	M, K int32
}

func newRows(l *kernels.Loader, lay layout) (*rows, error) {
	var r rows
	for i, name := range [...]string{"rows16", "rows32"} {
		var err error
		if r[i], err = l.Kernel(lay.kernels, name, 0); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

func (r *rows) launch(s *driver.Stream, from *few, m int) error {
	p := rowsParams{X: from.X, Part: from.Part[0], M: int32(m), K: from.K}
	k := r[0]
	if m > 16 {
		k = r[1]
	}
	const tile = 2 * tileRows
	return driver.Launch(s, k, driver.Grid{X: (int(p.Part.N) + tile - 1) / tile, Threads: 256}, &p)
}
