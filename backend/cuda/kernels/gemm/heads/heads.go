// Package heads multiplies each head of a row by a matrix of its own (graph.HeadLinear).
package heads

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Params mirrors HeadsParams of heads.h.
type Params struct {
	X, W, Y                                 driver.Ptr // [Rows, Heads × Size], [Heads, N, K], [Rows, Heads × Width]
	Rows, Heads, Size, Width, N, K, Rest, _ int32      // the last Rest numbers of a head are copied
}

// Kernel is a kernel and its launches: tile × tile results for a block.
type Kernel struct {
	kernel       *driver.Kernel
	tile, shared int
}

// What heads_mma.cu says, too.
const (
	mmaTile   = 128
	mmaShared = 3*2*128*128 + 1024
)

// onTensorCores reports whether heads of these sizes can be multiplied there: they begin at multiples of 16 bytes, and so do their results.
func onTensorCores(p *Params, x, w graph.Type) bool {
	return x == graph.BF16 && w == graph.BF16 && p.Size%8 == 0 && p.K%8 == 0 && p.N%8 == 0 && p.Width%8 == 0 && p.Rest%8 == 0
}

// Find gets the kernel for rows of a type and matrices of another, of the sizes of p.
func Find(l *kernels.Loader, p *Params, x, w graph.Type) (k Kernel, err error) {
	if onTensorCores(p, x, w) && (l.Context() == nil || l.Context().SharedBlock >= mmaShared) {
		k.tile, k.shared = mmaTile, mmaShared
		k.kernel, err = l.Kernel("gemm/heads/heads_mma", "heads_mma", mmaShared)
		return k, err
	}
	k.tile = 64
	k.kernel, err = l.Kernel("gemm/heads/heads", kernels.Name("heads", x, w), 0)
	return k, err
}

// Launch puts it on the stream.
func (k Kernel) Launch(s *driver.Stream, p *Params) error {
	blocks := func(n int32) int { return (int(n) + k.tile - 1) / k.tile }
	return driver.Launch(s, k.kernel, driver.Grid{X: blocks(p.N), Y: blocks(p.Rows), Z: int(p.Heads), Threads: 256, Shared: k.shared}, p)
}
