package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Rounded is a matrix of floats on the device to round to INT4: X is [N, K], K a multiple of 128; W has room for its slabs and is full of
// zeros. The bits are those that Pack makes of what quant.Encode gives; the scale of 128 numbers of which Encode would refuse one is no
// number. It mirrors RoundParams of slab_round.cu.
type Rounded struct {
	X, W driver.Ptr
	N, K int32
}

// FindRound gets the kernel that rounds floats of a type, F32 or BF16.
func FindRound(l *kernels.Loader, from graph.Type) (*driver.Kernel, error) {
	return l.Kernel("slab_round", kernels.Name("round", from), 0)
}

// Round puts the rounding of a matrix on the stream, a warp for each 128 numbers.
func Round(s *driver.Stream, k *driver.Kernel, r *Rounded) error {
	const threads, warps = 256, 256 / 32
	return driver.Launch(s, k, driver.Grid{X: (int(r.N)*int(r.K)/columns + warps - 1) / warps, Threads: threads}, r)
}
