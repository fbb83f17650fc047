// Package skinny is the linear layer for 1 to 16 rows on any GPU with bf16 tensor cores: the weights stream from memory into
// registers once.
package skinny

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// MaxRows is how many rows of x a launch takes.
const MaxRows = 16

// Part mirrors Part of skinny.cu: one weight and where its results go.
type Part struct {
	W, Bias, Y, Add driver.Ptr
	N, ToF32        int32
}

// Params mirrors SkinnyParams of skinny.cu.
type Params struct {
	X               driver.Ptr
	Part            [3]Part
	M, K, Parts, Fn int32
}

// Kernel is the family: for up to 8 rows and up to 16, plain or gated.
type Kernel struct {
	kernels [2]*driver.Kernel
	rows    [2]int // of weights in a block
}

// New finds the kernels. A gated problem has two parts, gate and up, and its result goes to the first's Y.
func New(l *kernels.Loader, gated bool) (*Kernel, error) {
	names, k := [2]string{"skinny8", "skinny16"}, &Kernel{rows: [2]int{16, 32}}
	if gated {
		names, k.rows = [2]string{"gated8", "gated16"}, [2]int{16, 16}
	}
	for i, name := range names {
		var err error
		if k.kernels[i], err = l.Kernel("skinny", name, 0); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Fits reports whether rows of k numbers can be loaded 16 bytes at a time.
func Fits(k int) bool { return k%8 == 0 }

// Launch computes p.M rows.
func (k *Kernel) Launch(s *driver.Stream, p *Params, gated bool) error {
	i := 0
	if p.M > 8 {
		i = 1
	}
	blocks := 0
	for _, part := range p.Part[:p.Parts] {
		blocks += (int(part.N) + k.rows[i] - 1) / k.rows[i]
	}
	if gated {
		blocks /= 2
	}
	return driver.Launch(s, k.kernels[i], driver.Grid{X: blocks, Threads: 256}, p)
}
