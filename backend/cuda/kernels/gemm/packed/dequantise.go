package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/quant"
)

// DequantiseParams is a weight to dequantise: Y is [N, K] bf16, or, when Interleaved, two such matrices as densesm90.Interleave lays them, of which
// this is the first or the Second. It mirrors DequantiseParams of dequantise.h.
type DequantiseParams struct {
	W, Y                      driver.Ptr
	N, K, Interleaved, Second int32
}

// FindDequantise gets the kernel that dequantises weights of a format that Has.
func FindDequantise(l *kernels.Loader, f quant.Format) (*driver.Kernel, error) {
	return l.Kernel(layouts[f].module, "dequantise", 0)
}

// Dequantise puts the dequantisation of a weight on the stream, a warp for each unit.
func Dequantise(s *driver.Stream, k *driver.Kernel, o *DequantiseParams) error {
	const threads, warps = 256, 256 / 32
	units := tiles(int(o.N)) * tileUnits(int(o.K))
	return driver.Launch(s, k, driver.Grid{X: (units + warps - 1) / warps, Threads: threads}, o)
}
