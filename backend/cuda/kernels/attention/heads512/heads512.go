// Package heads512 is attention with heads of more than 256, up to 512, on the tensor cores: prompts, and sequences with one new token.
package heads512

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// params mirrors Heads512Params of heads512.cu.
type params struct {
	Step                                 kernels.Step
	Q, Cache, Y, Partial, TreeLen        driver.Ptr
	Heads, KVHeads, KSize, VSize, Window int32
	Splits, Tiled                        int32
	Scale, Softcap                       float32
	_                                    int32
}

// MaxSize is the largest head.
const MaxSize = 512

const (
	queries, keys, tileRows = 64, 32, 128 // as heads512.cu has them
	maxSplits               = 64
	splitKeys               = 128 // fewest keys of a split
	fill                    = 2   // most blocks for each multiprocessor of a step with several splits
)

// shared is the shared memory of a block with so many tiles of keys and values, in bytes.
func shared(stages int) int { return stages*2*keys*(2*MaxSize+16) + 8*16*32*4 }

// Shared is what a block must be able to have.
var Shared = shared(2)

// Problem is what a launch computes.
type Problem struct {
	Q, Y                         driver.Ptr // [T, Heads × KSize] and [T, Heads × VSize] bf16
	Cache                        driver.Ptr // pages; see kv_cache.h
	Heads, KVHeads, KSize, VSize int
	Window                       int        // keys that a query sees, its own the last; 0: all
	Scale, Softcap               float64    // of scores; Softcap 0: none
	Type                         graph.Type // of the cache: BF16 or F16
}

// Fits reports whether the kernel takes a problem.
func Fits(p Problem, q graph.Type) bool {
	big := max(p.KSize, p.VSize)
	return q == graph.BF16 && (p.Type == graph.BF16 || p.Type == graph.F16) && big <= MaxSize && p.KSize%8 == 0 && p.VSize%8 == 0 &&
		p.Window >= 0 && p.Heads/p.KVHeads <= queries
}

// Kernel is a problem bound to its kernels.
type Kernel struct {
	attend, combine *driver.Kernel
	base            params
	stages, sms     int
}

// PartialBytes is the scratch for the partial results of up to so many sequences with one new token.
func PartialBytes(sms, seqs int, p Problem) int64 {
	return int64(min(seqs*p.KVHeads*maxSplits, fill*sms)) * queries * int64(p.VSize+2) * 4
}

// New binds a problem. partial has PartialBytes.
func New(l *kernels.Loader, p Problem, partial driver.Ptr) (*Kernel, error) {
	k := &Kernel{stages: 3, sms: l.SMs(), base: params{
		Q: p.Q, Cache: p.Cache, Y: p.Y, Partial: partial, Heads: int32(p.Heads), KVHeads: int32(p.KVHeads), KSize: int32(p.KSize), VSize: int32(p.VSize),
		Window: int32(p.Window), Scale: float32(p.Scale), Softcap: float32(p.Softcap),
	}}
	if l.Context().SharedBlock < shared(k.stages) {
		k.stages = 2
	}
	var err error
	if k.attend, err = l.Kernel("attention/heads512/heads512", kernels.Name(fmt.Sprintf("heads512_%d", k.stages), p.Type), shared(k.stages)); err != nil {
		return nil, err
	}
	k.combine, err = l.Kernel("attention/heads512/heads512", "heads512_combine", 0)
	return k, err
}

// splits is into how many splits the keys of each of so many sequences go, so that all multiprocessors have work.
func (k *Kernel) splits(seqs, longest int) int {
	if window := int(k.base.Window); window > 0 {
		longest = min(longest, window+keys)
	}
	return max(1, min(maxSplits, longest/splitKeys, fill*k.sms/(seqs*int(k.base.KVHeads))))
}

// Prompts computes a step's tiles: Step.Tiles has pairs of sequence and first row, 128 rows apart.
func (k *Kernel) Prompts(s *driver.Stream, step *kernels.Step, tiles int) error {
	p := k.base
	p.Step, p.Splits, p.Tiled = *step, 1, 1
	each := queries / int(p.Heads/p.KVHeads)
	return driver.Launch(s, k.attend, driver.Grid{X: tiles * ((tileRows + each - 1) / each), Y: int(p.KVHeads), Threads: 256, Shared: shared(k.stages)}, &p)
}

// Decode computes sequences with one new token, but for token trees, which treeLen tells; 0: there are none.
func (k *Kernel) Decode(s *driver.Stream, step *kernels.Step, treeLen driver.Ptr, seqs int) error {
	p := k.base
	p.Step, p.TreeLen, p.Splits = *step, treeLen, int32(k.splits(seqs, int(step.SeqPages)<<step.PageShift))
	if err := driver.Launch(s, k.attend, driver.Grid{X: seqs, Y: int(p.KVHeads), Z: int(p.Splits), Threads: 256, Shared: shared(k.stages)}, &p); err != nil || p.Splits == 1 {
		return err
	}
	return driver.Launch(s, k.combine, driver.Grid{X: int(p.Heads), Y: seqs, Threads: 128}, &p)
}
