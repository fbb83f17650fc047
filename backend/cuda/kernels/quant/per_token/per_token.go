// Package pertoken quantises rows to 8 bits (E4M3 or INT8) with a scale each, as gemm/w8a8 takes them: activations per token, weights per output
// channel. The largest magnitude of a row becomes the largest that the type has, 448 or 127.
package pertoken

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Params mirrors QuantiseParams of per_token.cu.
type Params struct {
	X, Y, Scale driver.Ptr // [rows, n], [rows, n] and [rows]
	N           int32
	Below       float32 // numbers of this magnitude or more are left out, zeros in Y, and have no part in the scale; 0: none is
}

// Fits reports whether rows of n numbers can be rounded: 8 numbers are read at a time.
func Fits(n int) bool { return n%8 == 0 }

// Find gets the kernel that rounds rows of from, F32 or BF16, to F8 or I8.
func Find(l *kernels.Loader, from, to graph.Type) (*driver.Kernel, error) {
	return l.Kernel("quant/per_token/per_token", kernels.Name("quantise", from, to), 0)
}

// Launch rounds so many rows.
func Launch(s *driver.Stream, k *driver.Kernel, rows int, p *Params) error {
	threads := min(1024, (int(p.N)/8+31)/32*32)
	return driver.Launch(s, k, driver.Grid{X: rows, Threads: threads}, p)
}
