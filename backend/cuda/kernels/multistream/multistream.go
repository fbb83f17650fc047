// Package multistream computes on rows of several residual streams, on parts of rows, and on rows by a weight or a threshold.
package multistream

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Params mirrors StreamsParams of multistream.cu, which says what each kernel reads of it.
type Params struct {
	X, Other, Coefs            driver.Ptr // of the kernel's type; Coefs may be 0
	Weight                     driver.Ptr // [Size] float32
	Y                          driver.Ptr
	Streams, Size, Width, From int32
	By                         float32
	_                          int32
}

// What are the kernels.
type What string

// The kernels, each of the graph op of its name; Sums is RowSums, Threshold GaussianTopK.
const (
	Expand       What = "expand"
	Mix          What = "mix"
	Add          What = "add"
	Mean         What = "mean"
	Columns      What = "columns"
	ScaleColumns What = "scale_columns"
	Sums         What = "sums"
	Threshold    What = "threshold"
)

// Kernel is one of them for one element type.
type Kernel struct{ kernel *driver.Kernel }

// New is the kernel for values of type t.
func New(l *kernels.Loader, what What, t graph.Type) (*Kernel, error) {
	k, err := l.Kernel("multistream/multistream", kernels.Name(string(what), t), 0)
	return &Kernel{k}, err
}

// Launch puts the kernel on the stream for so many rows.
func (k *Kernel) Launch(s *driver.Stream, rows int, p *Params) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: rows, Threads: 256}, p)
}
