// Package latent is attention over latent caches on the tensor cores: multi-head latent attention with absorbed matrices, to all keys or to chosen ones.
package latent

import (
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// params mirrors LatentParams of latent.cu.
type params struct {
	Step                              kernels.Step
	Q, Cache, Y                       driver.Ptr
	Chosen, Partial                   driver.Ptr
	TreeLen, Ancestors                driver.Ptr
	Heads, KSize, VSize, Most, Splits int32
	Scale                             float32
}

// pairParams mirrors LatentPairParams of latent_keys.h.
type pairParams struct {
	Keys  driver.TensorMap
	P     params
	Lines int32
	_     [7]int32
}

const (
	heads, keys, stages = 64, 32, 4 // of a block, of a tile, tiles in flight
	maxK, maxV          = 576, 512
	maxSplits           = 64
	splitKeys           = 128 // fewest keys of a split
	rounds              = 4   // most blocks for each multiprocessor of a step with several splits
)

// Shared is the shared memory of a block, in bytes: keys, and the halves of scores.
const Shared = stages*keys*(2*maxK+16) + 8*16*32*4

// Problem is attention to bind: absorbed queries, [T, Heads × KSize], and what is written, [T, Heads × VSize].
type Problem struct {
	Q, Cache, Y         driver.Ptr
	Chosen              driver.Ptr // [T, Most] float32: the keys that a row attends to; 0: all that it sees
	Most                int
	Heads, KSize, VSize int
	Scale               float64
	Type                graph.Type // of the cache
	Page                int        // tokens of its pages
}

// Fits reports whether there is a kernel for queries and a cache of these types and heads of these sizes; caches of 8 bits are the wide one's alone.
func Fits(kSize, vSize int, q, cache graph.Type, hopper bool) bool {
	switch {
	case q != graph.BF16:
		return false
	case cache == graph.F8 || cache == graph.I8:
		return wide(kSize, vSize, hopper)
	}
	return (cache == graph.BF16 || cache == graph.F16) && kSize <= maxK && vSize <= maxV && kSize%8 == 0 && vSize%2 == 0
}

// Kernel is a problem bound to its kernels.
type Kernel struct {
	keys            *driver.TensorMap // of the cache, where blocks work in clusters of two; nil: they do not
	attend, combine *driver.Kernel
	base            params
	blocks, sms     int // blocks of a row; multiprocessors, each of which has one at a time
	threads, shared int // of a block
}

// What latent_sm90.cu says, too: the sizes that it is for, in the shape of DeepSeek's models.
const (
	wideK, wideV = 576, 512
	wideThreads  = 384
	wideShared   = 3*64*2*wideK + 1024
)

// pairLines is the lines of a tile that a block of a cluster loads.
const pairLines = 32

// paired reports whether blocks work in clusters of two, each of which loads half of the keys for both: where they have the same keys, of 16 bits, in pages of
// TMA's boxes.
func paired(p Problem) bool {
	return blocks(p)%2 == 0 && p.Chosen == 0 && (p.Type == graph.BF16 || p.Type == graph.F16) && p.Page >= 16
}

func wide(kSize, vSize int, hopper bool) bool { return hopper && kSize == wideK && vSize == wideV }

func blocks(p Problem) int { return (p.Heads + heads - 1) / heads }

// PartialBytes is the scratch for the partial results of steps of up to so many rows.
func PartialBytes(sms, rows int, p Problem) int64 {
	parts := min(int64(rows)*int64(blocks(p))*maxSplits, int64(rounds*sms))
	return parts * heads * int64(p.VSize+2) * 4
}

// New binds a problem. partial has PartialBytes.
func New(l *kernels.Loader, p Problem, partial driver.Ptr) (*Kernel, error) {
	if wide(p.KSize, p.VSize, l.Hopper()) && paired(p) {
		k, err := bind(l, p, partial, "attention/latent/latent_sm90", "latent_pair", wideThreads, wideShared)
		if err != nil {
			return nil, err
		}
		m, err := l.Context().MatrixMap(p.Cache, math.MaxInt32, p.KSize, 2*p.KSize, min(p.Page, pairLines), 64)
		k.keys = &m
		return k, err
	}
	if wide(p.KSize, p.VSize, l.Hopper()) {
		return bind(l, p, partial, "attention/latent/latent_sm90", "latent_wide", wideThreads, wideShared)
	}
	return bind(l, p, partial, "attention/latent/latent", "latent_attention", 256, Shared)
}

// bind binds a problem to a kernel of blocks of so many threads with so much shared memory.
func bind(l *kernels.Loader, p Problem, partial driver.Ptr, module, name string, threads, shared int) (*Kernel, error) {
	k := &Kernel{blocks: blocks(p), sms: l.SMs(), threads: threads, shared: shared, base: params{
		Q: p.Q, Cache: p.Cache, Y: p.Y, Chosen: p.Chosen, Partial: partial,
		Heads: int32(p.Heads), KSize: int32(p.KSize), VSize: int32(p.VSize), Most: int32(p.Most), Scale: float32(p.Scale),
	}}
	var err error
	if k.attend, err = l.Kernel(module, kernels.Name(name, p.Type), shared); err != nil {
		return nil, err
	}
	k.combine, err = l.Kernel("attention/latent/latent", "latent_combine", 0)
	return k, err
}

// splits is into how few splits rows of up to so many keys are split so that multiprocessors have work to the end.
func (k *Kernel) splits(rows, longest int) int {
	best, busiest := 1, 0.0
	for n := 1; n <= min(maxSplits, longest/splitKeys); n++ {
		all := n * rows * k.blocks
		if n > 1 && all > rounds*k.sms {
			break
		}
		waves := float64(all) / float64(k.sms)
		if busy := waves / math.Ceil(waves); busy > busiest+0.05 {
			best, busiest = n, busy
		}
	}
	return best
}

// Launch computes a step's rows; where no keys are chosen, without those of sequences with a token tree. treeLen and ancestors are backend.Batch's, 0 if there are none.
func (k *Kernel) Launch(s *driver.Stream, step *kernels.Step, treeLen, ancestors driver.Ptr, rows int) error {
	longest := int(step.SeqPages) << step.PageShift
	if k.base.Chosen != 0 {
		longest = min(longest, int(k.base.Most))
	}
	return k.launch(s, step, treeLen, ancestors, rows, k.splits(rows, longest))
}

// launch is Launch in so many splits.
func (k *Kernel) launch(s *driver.Stream, step *kernels.Step, treeLen, ancestors driver.Ptr, rows, splits int) error {
	p := k.base
	p.Step, p.TreeLen, p.Ancestors, p.Splits = *step, treeLen, ancestors, int32(splits)
	grid := driver.Grid{X: rows * k.blocks, Y: splits, Threads: k.threads, Shared: k.shared}
	var err error
	if k.keys != nil {
		grid.Cluster = 2
		err = driver.Launch(s, k.attend, grid, &pairParams{Keys: *k.keys, P: p, Lines: int32(min(1<<step.PageShift, pairLines))})
	} else {
		err = driver.Launch(s, k.attend, grid, &p)
	}
	if err != nil || splits == 1 {
		return err
	}
	return driver.Launch(s, k.combine, driver.Grid{X: int(p.Heads), Y: rows, Threads: 128}, &p)
}
