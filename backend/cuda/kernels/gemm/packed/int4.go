package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// QuantiseParams is a matrix of floats on the device to quantise to INT4: X is [N, K], K a multiple of 128; W has room for its panels and is full of
// zeros. The bits are those that Pack makes of what quant.Encode gives; the scale of 128 numbers of which Encode would refuse one is no
// number. It mirrors QuantiseParams of quantise_int4.cu.
type QuantiseParams struct {
	X, W driver.Ptr
	N, K int32
}

// FindQuantise gets the kernel that quantises floats of a type, F32 or BF16.
func FindQuantise(l *kernels.Loader, from graph.Type) (*driver.Kernel, error) {
	return l.Kernel("gemm/packed/quantise_int4", kernels.Name("quantise", from), 0)
}

// Quantise puts the quantisation of a matrix on the stream, a warp for each 128 numbers.
func Quantise(s *driver.Stream, k *driver.Kernel, r *QuantiseParams) error {
	const threads, warps = 256, 256 / 32
	return driver.Launch(s, k, driver.Grid{X: (int(r.N)*int(r.K)/columns + warps - 1) / warps, Threads: threads}, r)
}
