package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/quant"
)

// Opened is a weight to open: Y is [N, K] bf16, or, when Woven, two such matrices as gemm.Weave lays them, of which this is the
// first or the Second. It mirrors OpenParams of open.h.
type Opened struct {
	W, Y                driver.Ptr
	N, K, Woven, Second int32
}

// FindOpen gets the kernel that opens weights of a format that Has.
func FindOpen(l *kernels.Loader, f quant.Format) (*driver.Kernel, error) {
	return l.Kernel(layouts[f].kernels, "open", 0)
}

// Open puts the opening of a weight on the stream, a warp for each unit.
func Open(s *driver.Stream, k *driver.Kernel, o *Opened) error {
	const threads, warps = 256, 256 / 32
	units := tiles(int(o.N)) * tileUnits(int(o.K))
	return driver.Launch(s, k, driver.Grid{X: (units + warps - 1) / warps, Threads: threads}, o)
}
