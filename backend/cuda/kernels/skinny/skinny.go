// Package skinny is the linear layer for 1 to 16 rows on any GPU with bf16 tensor cores: the weights, in bf16 or in numbers of
// eight bits with a scale a row, stream from memory into registers once.
package skinny

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// MaxRows is how many rows of x a launch takes.
const MaxRows = 16

// Part mirrors Part of skinny.h: one weight and where its results go.
type Part struct {
	W, Bias, Scale, Y driver.Ptr
	N, _              int32
}

// Params mirrors SkinnyParams of skinny.h. K counts kernels.Pairs.
type Params struct {
	X               driver.Ptr
	Part            [3]Part
	XScale          driver.Ptr
	M, K, Parts, Fn int32
}

// Kernel is the family: for up to 8 rows and up to 16, plain or gated.
type Kernel struct {
	variants []variant
	few      variant // for up to 8 rows and few weights: more warps share the k of a block
	sms      int
	gated    bool
}

type variant struct {
	kernel  *driver.Kernel
	rows    int // of x
	weights int // rows of weights in a block
	threads int
}

// New finds the kernels for numbers of a type, BF16, F8 or I8. A gated problem has one weight, gate and up as gemm.Weave makes them,
// with N the columns of Y; the up matrix's bias and scales are the second part's.
func New(l *kernels.Loader, t graph.Type, gated bool) (*Kernel, error) {
	folder := kernels.Folder("skinny", t)
	k := &Kernel{sms: l.SMs(), gated: gated, variants: []variant{{nil, 8, 16, 256}, {nil, 16, 32, 256}}, few: variant{nil, 8, 16, 512}}
	names := []string{"skinny8", "skinny16"}
	if gated {
		names, k.variants[1].weights = []string{"skinny8_gated", "skinny16_gated"}, 16
	}
	for i, name := range names {
		var err error
		if k.variants[i].kernel, err = l.Kernel(folder, name, 0); err != nil {
			return nil, err
		}
	}
	var err error
	k.few.kernel, err = l.Kernel(folder, "skinny8_few", 0)
	return k, err
}

// Fits reports whether rows of k numbers can be loaded 16 bytes at a time.
func Fits(t graph.Type, k int) bool { return t.RowBytes(k)%16 == 0 }

// Launch computes p.M rows.
func (k *Kernel) Launch(s *driver.Stream, p *Params) error {
	v := &k.variants[0]
	if int(p.M) > v.rows {
		v = &k.variants[1]
	}
	blocks := v.blocks(p)
	if !k.gated && int(p.M) <= k.few.rows && blocks <= 2*k.sms {
		v = &k.few
	}
	return driver.Launch(s, v.kernel, driver.Grid{X: blocks, Threads: v.threads}, p)
}

func (v *variant) blocks(p *Params) int {
	n := 0
	for _, part := range p.Part[:p.Parts] {
		n += (int(part.N) + v.weights - 1) / v.weights
	}
	return n
}
