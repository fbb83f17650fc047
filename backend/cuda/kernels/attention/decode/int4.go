package decode

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// int4Params mirrors Int4DecodeParams of int4.cu.
type int4Params struct {
	params
	Newest, NewestPages driver.Ptr
}

const (
	int4Threads = 160 // four warps take groups of tokens, the fifth the newest ones
	int4Run     = 32  // heads are multiples of so many numbers
)

// FitsInt4 reports whether heads of these sizes divide into what warps take at a time.
func FitsInt4(kSize, vSize int) bool {
	return kSize%int4Run == 0 && vSize%int4Run == 0 && kSize <= 256 && vSize <= 256
}

// Int4Kernel is a problem over a cache in four bits, bound to its kernel.
type Int4Kernel struct {
	Kernel
	newest driver.Ptr
}

// NewInt4 binds a problem whose cache is of I4; newest is its residual cache. partial and arrived are as New has them.
func NewInt4(l *kernels.Loader, p Problem, newest, partial, arrived driver.Ptr) (*Int4Kernel, error) {
	name := "decode256"
	switch size := max(p.KSize, p.VSize); {
	case size <= 64:
		name = "decode64"
	case size <= 128:
		name = "decode128"
	}
	kernel, err := l.Kernel("attention/decode/int4", kernels.Name(name, graph.I4), 0)
	return &Int4Kernel{Kernel: Kernel{kernel: kernel, base: baseOf(p, partial, arrived), groups: groups(p), resident: resident(l.SMs(), p, false)}, newest: newest}, err
}

// Launch computes the sequences of a step that have one new token. newest is where the page tables of the residual cache's group lie.
func (k *Int4Kernel) Launch(s *driver.Stream, step *kernels.Step, newest driver.Ptr, seqs int) error {
	p := int4Params{params: k.params(step, seqs), Newest: k.newest, NewestPages: newest}
	return driver.Launch(s, k.kernel, driver.Grid{X: int(p.Splits), Y: k.groups, Z: seqs, Threads: int4Threads}, &p)
}
