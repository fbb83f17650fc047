package pointwise

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// ScaleParams mirrors ScaleParams of scaled.cu.
type ScaleParams struct {
	X, Y, Positions driver.Ptr // [rows, Width] twice, [rows] int32; Positions 0: every row is multiplied by By
	Width           int32
	By, Beta        float32 // see graph.Growth
	Every, From     int32
	_               int32
}

// XIELUParams mirrors XieluParams of scaled.cu.
type XIELUParams struct {
	X, Y                          driver.Ptr // [N]
	N                             int64
	Positive, Negative, Beta, Eps float32
}

// Scale finds the kernel that multiplies rows by a factor each.
func Scale(l *kernels.Loader, t graph.Type) (*driver.Kernel, error) {
	return l.Kernel("pointwise/scaled", kernels.Name("scale", t), 0)
}

// XIELU finds the kernel of graph.XIELU for values of type t.
func XIELU(l *kernels.Loader, t graph.Type) (*driver.Kernel, error) {
	return l.Kernel("pointwise/scaled", kernels.Name("xielu", t), 0)
}

// LaunchScale puts Scale's kernel on the stream.
func LaunchScale(s *driver.Stream, k *driver.Kernel, rows int, p *ScaleParams) error {
	return driver.Launch(s, k, driver.Grid{X: rows, Y: (int(p.Width) + 1023) / 1024, Threads: 256}, p)
}

// LaunchXIELU puts XIELU's kernel on the stream for p.N numbers.
func LaunchXIELU(s *driver.Stream, k *driver.Kernel, p *XIELUParams) error {
	return driver.Launch(s, k, driver.Grid{X: int((p.N + 255) / 256), Threads: 256}, p)
}
