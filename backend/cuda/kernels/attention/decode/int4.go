package decode

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// int4Params mirrors Int4DecodeParams of int4.cu.
type int4Params struct {
	params
	Newest, NewestPages driver.Ptr
}

// int4Run is what sizes of heads are multiples of.
const int4Run = 32

// int4Shared is the shared memory of a block, as SharedLayout of int4.cu has it: two groups of tokens a warp, and what the newest tokens come to, for
// heads of up to width numbers.
func int4Shared(width int) int { return 4*2*40*width + 4*heads*width + 2*4*5*heads }

// FitsInt4 reports whether heads of these sizes divide into what warps take at a time.
func FitsInt4(kSize, vSize int) bool {
	return kSize%int4Run == 0 && vSize%int4Run == 0 && kSize <= 256 && vSize <= 256
}

// Int4Kernel is a problem over a cache in four bits, bound to its kernel.
type Int4Kernel struct {
	Kernel
	shared int
	newest driver.Ptr
}

// NewInt4 binds a problem whose cache is of I4; newest is its residual cache. partial and arrived are as New has them.
func NewInt4(l *kernels.Loader, p Problem, newest, partial, arrived driver.Ptr) (*Int4Kernel, error) {
	width := 256
	for width/2 >= max(p.KSize, p.VSize) && width > 64 {
		width /= 2
	}
	shared := int4Shared(width)
	kernel, err := l.Kernel("attention/decode/int4", kernels.Name(fmt.Sprintf("decode%d", width), graph.I4), shared)
	return &Int4Kernel{shared: shared, newest: newest, Kernel: Kernel{kernel: kernel, base: baseOf(p, partial, arrived), groups: groups(p), resident: resident(l.SMs(), p, false)}}, err
}

// Launch computes the sequences of a step that have one new token. newest is where the page tables of the residual cache's group lie.
func (k *Int4Kernel) Launch(s *driver.Stream, step *kernels.Step, newest driver.Ptr, seqs int) error {
	p := int4Params{params: k.params(step, seqs), Newest: k.newest, NewestPages: newest}
	return driver.Launch(s, k.kernel, driver.Grid{X: int(p.Splits), Y: k.groups, Z: seqs, Threads: threads, Shared: k.shared}, &p)
}
