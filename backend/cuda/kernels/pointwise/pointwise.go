// Package pointwise applies a function to every number of one value, or of two of the same shape.
package pointwise

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Params mirrors PointwiseParams of pointwise.cu.
type Params struct {
	X, Other, Y driver.Ptr // [N]; Other, the second input, 0 for functions of one
	N           int64
	What        int32 // Act or ActMul plus a graph.Fn; Add; Softcap
	Limit       float32
}

// What Params.What may be.
const (
	Act     = 0
	ActMul  = 16
	Add     = 32
	Softcap = 48
)

// Kernel is the family for one element type.
type Kernel struct{ kernel *driver.Kernel }

// New is the kernel for values of type t.
func New(l *kernels.Loader, t graph.Type) (*Kernel, error) {
	k, err := l.Kernel("pointwise/pointwise", kernels.Name("pointwise", t), 0)
	return &Kernel{k}, err
}

// Launch puts the kernel on the stream for p.N numbers.
func (k *Kernel) Launch(s *driver.Stream, p *Params) error {
	const perBlock = 256 * 8
	return driver.Launch(s, k.kernel, driver.Grid{X: int((p.N + perBlock - 1) / perBlock), Threads: 256}, p)
}
