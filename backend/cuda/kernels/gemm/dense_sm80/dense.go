// Package densesm80 is dense GEMM by mma.sync on any GPU with bf16 tensor cores, in bf16 or in 8 bits with a scale a row.
package densesm80

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Params mirrors GemmParams of tile.h. K counts kernels.Pairs.
type Params struct {
	X, W, Bias    driver.Ptr // [M, K], [N, K], [N] float32 or 0
	Scale, XScale driver.Ptr // [N] and [M] float32, what a number of each row of W and X counts; not of BF16
	Y             driver.Ptr // [M, N] bf16
	M, N, K       int32
	_             int32
}

const (
	size    = 128 // rows of x and of weights in a tile
	threads = 256
	shared  = 4 * 2 * size * 64 // four stages of rows of 64 bytes
)

// Find gets the kernel for numbers of a type: BF16, F8 or I8.
func Find(l *kernels.Loader, t graph.Type) (*driver.Kernel, error) {
	return l.Kernel(kernels.Module("gemm/dense_sm80/gemm", t), "gemm_mma_sync", shared)
}

// Launch puts it on the stream, tiles of one block of weights side by side.
func Launch(s *driver.Stream, k *driver.Kernel, p *Params) error {
	grid := driver.Grid{X: (int(p.M) + size - 1) / size, Y: (int(p.N) + size - 1) / size, Threads: threads, Shared: shared}
	return driver.Launch(s, k, grid, p)
}
