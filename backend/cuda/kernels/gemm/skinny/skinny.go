// Package skinny is skinny GEMM, for 1 to 16 rows, on any GPU with bf16 tensor cores: the weights, in bf16 or in 8 bits with a scale a row, stream
// from memory into registers once.
package skinny

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// MaxRows is how many rows of x a launch takes, MaxGated how many one of a gated problem, MaxParts how many weights.
const (
	MaxRows  = 16
	MaxGated = 8
	MaxParts = 4
)

// Part mirrors Part of skinny.h: one weight and where its results go.
type Part struct {
	W     driver.Ptr // [N, K]
	Bias  driver.Ptr // [N] float32, or 0
	Scale driver.Ptr // [N] float32, what a number of each row counts; not of BF16
	Y     driver.Ptr // [M, N] bf16
	N, _  int32
}

// Params mirrors SkinnyParams of skinny.h. K counts kernels.Pairs.
type Params struct {
	X               driver.Ptr // [M, K]
	Part            [MaxParts]Part
	XScale          driver.Ptr // [M] float32, what a number of each row counts; not of BF16
	M, K, Parts, Fn int32      // Fn: a gated problem's graph.Fn
}

// Kernel is a problem's kernels.
type Kernel struct {
	variants []variant // for more and more rows
	sms      int
}

// variant is a kernel of skinny.cu.
type variant struct {
	name    string
	rows    int  // of x, at most
	weights int  // rows of weights in a block
	threads int  // in a block
	few     bool // for few weights: more warps share the k of a block
	kernel  *driver.Kernel
}

// New finds the kernels for numbers of a type, BF16, F8 or I8. A gated problem has one weight, gate and up as densesm90.Interleave makes them,
// with N the columns of Y; the up matrix's bias and scales are the second part's.
func New(l *kernels.Loader, t graph.Type, gated bool) (*Kernel, error) {
	k := &Kernel{sms: l.SMs(), variants: []variant{
		{name: "skinny8_few", rows: 8, weights: 16, threads: 512, few: true},
		{name: "skinny8", rows: 8, weights: 16, threads: 256},
		{name: "skinny16", rows: MaxRows, weights: 32, threads: 256},
	}}
	if gated {
		k.variants = []variant{{name: "skinny8_gated", rows: MaxGated, weights: 16, threads: 256}}
	}
	for i := range k.variants {
		v := &k.variants[i]
		var err error
		if v.kernel, err = l.Kernel(kernels.Module("gemm/skinny/skinny", t), v.name, 0); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Fits reports whether rows of k numbers can be loaded 16 bytes at a time.
func Fits(t graph.Type, k int) bool { return t.RowBytes(k)%16 == 0 }

// Launch computes p.M rows.
func (k *Kernel) Launch(s *driver.Stream, p *Params) error {
	v := k.variant(p)
	return driver.Launch(s, v.kernel, driver.Grid{X: v.blocks(p), Threads: v.threads}, p)
}

// variant is the kernel for p.M rows.
func (k *Kernel) variant(p *Params) *variant {
	at := 0
	for int(p.M) > k.variants[at].rows || k.variants[at].few && k.variants[at].blocks(p) > 2*k.sms {
		at++
	}
	return &k.variants[at]
}

func (v *variant) blocks(p *Params) int {
	n := 0
	for _, part := range p.Part[:p.Parts] {
		n += (int(part.N) + v.weights - 1) / v.weights
	}
	return n
}
