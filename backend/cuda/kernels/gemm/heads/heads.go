// Package heads multiplies each head of a row by a matrix of its own (graph.HeadLinear).
package heads

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Params mirrors HeadsParams of heads.cu.
type Params struct {
	X, W, Y                                 driver.Ptr // [Rows, Heads × Size], [Heads, N, K], [Rows, Heads × Width]
	Rows, Heads, Size, Width, N, K, Rest, _ int32      // the last Rest numbers of a head are copied
}

// Find gets the kernel for rows of a type and matrices of another.
func Find(l *kernels.Loader, x, w graph.Type) (*driver.Kernel, error) {
	return l.Kernel("gemm/heads/heads", kernels.Name("heads", x, w), 0)
}

// Launch puts it on the stream.
func Launch(s *driver.Stream, k *driver.Kernel, p *Params) error {
	const tile = 64
	return driver.Launch(s, k, driver.Grid{X: (int(p.N) + tile - 1) / tile, Y: (int(p.Rows) + tile - 1) / tile, Z: int(p.Heads), Threads: 256}, p)
}
