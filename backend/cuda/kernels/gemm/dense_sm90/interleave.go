package densesm90

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// interleaveParams mirrors InterleaveParams of gemm.cu.
type interleaveParams struct {
	Gate, Up, Y   driver.Ptr
	Rows, Vectors int32
}

// Interleave lays gate and up, of rows × k pairs of bytes each, into one matrix of 2 × rows: eight rows of the gate, then the same eight of the up
// matrix, so that one thread has both numbers of a result. rows divides by 8, and k as well.
func Interleave(l *kernels.Loader, s *driver.Stream, gate, up, to driver.Ptr, rows, k int) error {
	kernel, err := l.Kernel("gemm/dense_sm90/gemm", "interleave", 0)
	if err != nil {
		return err
	}
	return driver.Launch(s, kernel, driver.Grid{X: rows, Threads: 256}, &interleaveParams{Gate: gate, Up: up, Y: to, Rows: int32(rows), Vectors: int32(k / 8)})
}
