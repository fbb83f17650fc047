// Package packed is the linear layer whose weights stay quantised on the GPU, in Q4_0 (other formats: kernels/slab): for up to 32 rows they stream from memory once and
// are opened in registers; for more they are opened to bf16 first.
package packed

import (
	"fmt"

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

// Kernel is the family for one format, plain or gated, by how many rows of x each takes.
type Kernel struct {
	variants []variant
	sms      int
	gated    bool
}

type variant struct {
	name    string
	rows    int // of x
	weights int // rows of each weight in a block
	threads int
	fill    func(blocks, sms int) bool // whether it suits a launch of so many blocks; nil: always
	kernel  *driver.Kernel
}

// few reports whether every multiprocessor can hold its share of the blocks at once; many, whether all have at least one.
func few(blocks, sms int) bool  { return blocks <= 3*sms }
func many(blocks, sms int) bool { return blocks >= sms }

// New finds the kernels for a format that Has. A gated problem has two parts, the gate and the up matrix, and one result, the
// first part's Y.
func New(l *kernels.Loader, f quant.Format, gated bool) (*Kernel, error) {
	k := &Kernel{sms: l.SMs(), gated: gated, variants: []variant{
		{"rows8_few_", 8, 16, 512, few, nil}, {"rows8_", 8, 16, 256, nil, nil},
		{"rows16_", 16, 32, 256, nil, nil},
		{"rows32_wide_", 32, 64, 128, many, nil}, {"rows32_", 32, 32, 256, nil, nil},
	}}
	if gated {
		k.variants = []variant{{"gated8_", 8, 16, 256, nil, nil}, {"gated16_", 16, 16, 256, nil, nil}, {"gated32_", 32, 16, 256, nil, nil}}
	}
	for i := range k.variants {
		var err error
		if k.variants[i].kernel, err = l.Kernel("packed", k.variants[i].name+f.String(), 0); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Launch computes p.M rows, up to MaxRows, with the first variant that suits.
func (k *Kernel) Launch(s *driver.Stream, p *Params) error {
	for _, v := range k.variants {
		blocks := k.blocks(&v, p)
		if int(p.M) <= v.rows && (v.fill == nil || v.fill(blocks, k.sms)) {
			return driver.Launch(s, v.kernel, driver.Grid{X: blocks, Threads: v.threads}, p)
		}
	}
	return fmt.Errorf("cuda: %d rows for a launch of at most %d", p.M, MaxRows)
}

func (k *Kernel) blocks(v *variant, p *Params) int {
	parts := p.Part[:p.Parts]
	if k.gated {
		parts = parts[:1]
	}
	n := 0
	for _, part := range parts {
		n += (int(part.N) + v.weights - 1) / v.weights
	}
	return n
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
	const threads, warps = 256, 256 / 32
	units := tiles(int(o.N)) * tileUnits(int(o.K))
	return driver.Launch(s, k, driver.Grid{X: (units + warps - 1) / warps, Threads: threads}, o)
}
