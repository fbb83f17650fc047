// Package densesimt is the SIMT fallback GEMM, without tensor cores: rows of f32 with weights of f32 or bf16, and all in bf16.
package densesimt

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Params mirrors GemmParams of linear.cu.
type Params struct {
	X, W, Bias, Y  driver.Ptr // [M, K], [N, K], [N] float32 or 0, [M, N]
	M, N, K, ToF32 int32      // ToF32: whether Y is float32, not bf16
}

// Find gets the kernel for rows and weights of these types.
func Find(l *kernels.Loader, x, w graph.Type) (*driver.Kernel, error) {
	return l.Kernel("gemm/dense_simt/gemm", kernels.Name("gemm", x, w), 0)
}

// Launch puts it on the stream, a block for each tile of 64 × 64 results.
func Launch(s *driver.Stream, k *driver.Kernel, p *Params) error {
	return driver.Launch(s, k, driver.Grid{X: (int(p.N) + 63) / 64, Y: (int(p.M) + 63) / 64, Threads: 256}, p)
}
