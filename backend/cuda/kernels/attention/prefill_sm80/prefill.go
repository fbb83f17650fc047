// Package prefillsm80 is FlashAttention of prompts over the paged 16-bit KV cache where prefillsm90 has no kernel: by mma.sync on other GPUs than Hopper
// with any head of up to 256 (Kernel), and on Hopper with heads of more than 128 (LargeHeads).
package prefillsm80

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
)

// params mirrors PrefillParams of prefill.h.
type params struct {
	Step                                 kernels.Step
	Q, Cache, Y, Sinks                   driver.Ptr
	Heads, KVHeads, KSize, VSize, Window int32
	Scale, Softcap                       float32
	Bidirectional                        int32
}

const (
	// MaxSize is the largest head, of keys and of values.
	MaxSize = 256
	// MinPage is the least page size in tokens: as many are fetched from one page at a time.
	MinPage = 16

	rows = prefillsm90.TileRows
)

// Fits reports whether heads of these sizes can be fetched 16 bytes at a time.
func Fits(kSize, vSize int) bool {
	return kSize%8 == 0 && vSize%8 == 0 && kSize <= MaxSize && vSize <= MaxSize
}

// variant is one way to compute a tile.
type variant struct {
	name          string
	size          int // of a head, rounded up
	keys, threads int
}

// shared is the shared memory of a block: queries, keys and values, in lines 16 bytes longer than a head.
func (f variant) shared() int { return (rows + 2*f.keys) * (2*f.size + 16) }

// roomy is how much shared memory a block may have on a GPU whose multiprocessors have room for two blocks of the variants
// that share more of what they load between rows; others (compute capability 8.6, 8.9 and 12.0) have 99 KiB.
const roomy = 160 << 10

// variants lists what there is, by size; of two for a size, the second takes less shared memory.
var variants = []variant{
	{"prefill64", 64, 96, 128},
	{"prefill96", 96, 64, 128},
	{"prefill96_tight", 96, 48, 128},
	{"prefill128", 128, 64, 128},
	{"prefill128_tight", 128, 64, 256},
	{"prefill256", 256, 64, 256},
	{"prefill256_tight", 256, 32, 256},
}

// variantOf chooses: four warps of 32 rows, two blocks a multiprocessor, where there is room, else eight of 16.
func variantOf(size int, roomy bool) variant {
	var best variant
	for _, f := range variants {
		if size <= f.size && (best.size == 0 || !roomy && best.size == f.size) {
			best = f
		}
	}
	return best
}

// Kernel is a problem bound to its kernel.
type Kernel struct {
	variant
	order
	kernel *driver.Kernel
	base   params
}

// New binds a problem.
func New(l *kernels.Loader, p prefillsm90.Problem) (*Kernel, error) {
	return bind(l, p, variantOf(max(p.KSize, p.VSize), l.Context().SharedBlock >= roomy))
}

func bind(l *kernels.Loader, p prefillsm90.Problem, f variant) (*Kernel, error) {
	if p.PageSize < MinPage {
		return nil, fmt.Errorf("cuda: pages of %d tokens; prompts are read %d tokens at a time", p.PageSize, MinPage)
	}
	k := &Kernel{variant: f, order: orderOf(l, p), base: baseOf(p)}
	var err error
	k.kernel, err = l.Kernel("attention/prefill_sm80/prefill", kernels.Name(f.name, p.Type), f.shared())
	return k, err
}

// baseOf is a problem's parameters, but for the step's.
func baseOf(p prefillsm90.Problem) params {
	base := params{
		Q: p.Q, Cache: p.Cache, Y: p.Y, Sinks: p.Sinks, Heads: int32(p.Heads), KVHeads: int32(p.KVHeads), KSize: int32(p.KSize), VSize: int32(p.VSize),
		Window: int32(p.Window), Scale: float32(p.Scale), Softcap: float32(p.Softcap),
	}
	if p.Bidirectional {
		base.Bidirectional = 1
	}
	return base
}

// Launch computes a step's tiles: Step.Tiles has pairs of sequence and first row, prefillsm90.TileRows apart. tokens is how many keys
// their sequences have together.
func (k *Kernel) Launch(s *driver.Stream, step *kernels.Step, tiles, tokens int) error {
	p := k.base
	p.Step = *step
	grid := k.grid(tiles, tokens)
	grid.Threads, grid.Shared = k.threads, k.shared()
	return driver.Launch(s, k.kernel, grid, &p)
}

// order is how the blocks of a launch go through heads and tiles.
type order struct {
	heads, kvHeads int
	token          int // bytes of a token's keys and values
	kept           int // bytes of keys and values that should be in use at a time: what stays in the L2 cache
}

func orderOf(l *kernels.Loader, p prefillsm90.Problem) order {
	// A third of the cache: the halves of a large one both keep what both sides of the GPU read. A GPU shared out in parts may say 0.
	return order{heads: p.Heads, kvHeads: p.KVHeads, token: 2 * p.KVHeads * (p.KSize + p.VSize), kept: max(l.Context().L2/3, 1<<20)}
}

// grid is the query heads of as many key heads as are kept, then the tiles, then the next key heads.
func (o order) grid(tiles, tokens int) driver.Grid {
	passes := max(1, min(o.kvHeads, (tokens*o.token+o.kept-1)/o.kept))
	together := (o.kvHeads + passes - 1) / passes
	return driver.Grid{X: o.heads / o.kvHeads * together, Y: tiles, Z: passes}
}
