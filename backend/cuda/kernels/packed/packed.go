// Package packed is the linear layer whose weights stay quantised on the GPU: for up to 32 rows they stream from memory once and
// are opened in registers; for more they are opened to bf16 first.
package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/quant"
)

// MaxRows is how many rows of x a launch takes.
const MaxRows = 32

// Part mirrors PackedPart of packed.cu: one weight and where its results go.
type Part struct {
	W, Bias, Y driver.Ptr
	N          int32
}

// Params mirrors PackedParams of packed.cu.
type Params struct {
	X               driver.Ptr
	Part            [3]Part
	M, K, Parts, Fn int32
}

// Kernel is the family for one format, plain or gated.
type Kernel struct {
	variants [3]variant
	gated    bool
}

type variant struct {
	kernel  *driver.Kernel
	rows    int // of x
	weights int // rows of each weight in a block
}

const threads = 256

// New finds the kernels for a format that Has. A gated problem has two parts, the gate and the up matrix, and one result, the
// first part's Y.
func New(l *kernels.Loader, f quant.Format, gated bool) (*Kernel, error) {
	k := &Kernel{variants: [3]variant{{nil, 8, 16}, {nil, 16, 32}, {nil, 32, 32}}, gated: gated}
	names := [3]string{"rows8_", "rows16_", "rows32_"}
	if gated {
		names = [3]string{"gated8_", "gated16_", "gated32_"}
	}
	for i := range k.variants {
		v := &k.variants[i]
		if gated {
			v.weights = 16
		}
		var err error
		if v.kernel, err = l.Kernel("packed", names[i]+f.String(), 0); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Launch computes p.M rows, up to MaxRows.
func (k *Kernel) Launch(s *driver.Stream, p *Params) error {
	v := &k.variants[0]
	for i := 1; int(p.M) > v.rows && i < len(k.variants); i++ {
		v = &k.variants[i]
	}
	blocks := 0
	for _, part := range p.Part[:p.Parts] {
		blocks += (int(part.N) + v.weights - 1) / v.weights
		if k.gated {
			break
		}
	}
	return driver.Launch(s, v.kernel, driver.Grid{X: blocks, Threads: threads}, p)
}

// Opened is a weight to open: Y is [N, K] bf16, or, when Woven, two such matrices as gemm.Weave lays them, of which this is the
// first or the Second.
type Opened struct {
	W, Y                driver.Ptr
	N, K, Woven, Second int32
}

// FindOpen gets the kernel that opens weights of a format that Has.
func FindOpen(l *kernels.Loader, f quant.Format) (*driver.Kernel, error) {
	return l.Kernel("packed", "open_"+f.String(), 0)
}

// Open puts the opening of a weight on the stream, a warp for each unit.
func Open(s *driver.Stream, k *driver.Kernel, o *Opened) error {
	const warps = threads / 32
	units := tiles(int(o.N)) * tileUnits(int(o.K))
	return driver.Launch(s, k, driver.Grid{X: (units + warps - 1) / warps, Threads: threads}, o)
}
