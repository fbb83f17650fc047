package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// gemmSM80Rows is how many rows of x a launch of gemm_sm80.h takes.
const gemmSM80Rows = 32

// gemmSM80 are the kernels of gemm_sm80.h, for 9 to 16 and to 32 rows of a problem of one part.
type gemmSM80 [2]*driver.Kernel

// gemmSM80Params mirrors GemmSm80Params of gemm_sm80.h.
type gemmSM80Params struct {
	X    driver.Ptr
	Part part
	M, K int32
}

func newGemmSM80(l *kernels.Loader, lt layout) (*gemmSM80, error) {
	var r gemmSM80
	for i, name := range [...]string{"gemm_mma_sync16", "gemm_mma_sync32"} {
		var err error
		if r[i], err = l.Kernel(lt.module, name, 0); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

func (r *gemmSM80) launch(s *driver.Stream, from *gemvParams, m int) error {
	p := gemmSM80Params{X: from.X, Part: from.Part[0], M: int32(m), K: from.K}
	k := r[0]
	if m > 16 {
		k = r[1]
	}
	const tile = 2 * tileRows
	return driver.Launch(s, k, driver.Grid{X: (int(p.Part.N) + tile - 1) / tile, Threads: 256}, &p)
}
