// Package simt is the SIMT fallback of attention: for any head size up to 576 and any element types, without tensor cores.
package simt

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// MaxSize is the largest head it takes, of keys and of values.
const MaxSize = 576

// blockSize is how many numbers of a head's values a block takes.
const blockSize = 256

// Params mirrors AttendParams of attend.cu.
type Params struct {
	Step                         kernels.Step
	Q, Cache, Y                  driver.Ptr // [T, Heads × KSize]; pages, see kv_cache.h; [T, Heads × VSize]
	Sinks                        driver.Ptr // [Heads] float32: scores without a key; or 0
	Heads, KVHeads, KSize, VSize int32
	Window                       int32      // keys that a query sees, its own the last; 0: all; below 0: those of its chunk of so many
	Scale, Softcap               float32    // of scores; Softcap 0: none
	Bidirectional                int32      // above 0: queries attend to later keys too; above 1: to no more than so many less one either way
	OnlyTrees                    int32      // 1: rows of sequences without a token tree are another kernel's
	TreeLen, Ancestors           driver.Ptr // [S] int32 and [T] uint64, see backend.Batch; 0 without token trees
	Latent                       int32      // 1: values are the first VSize numbers of keys, and pages hold keys alone
	Most                         int32      // keys that are chosen of a row
	Chosen                       driver.Ptr // [T, Most] float32: the keys that a row attends to, -1 behind them; 0: all that it sees
	Seen                         driver.Ptr // [T] of SeenInts: which keys a row attends to; 0: it follows from the step
}

// SeenInts is how many int32 a row's keys take: low, high, base, padding, and the two halves of the mask; see backend.Keys.
const SeenInts = 6

// Find gets the kernel for queries and a cache of these types.
func Find(l *kernels.Loader, q, cache graph.Type) (*driver.Kernel, error) {
	return l.Kernel("attention/simt/attention", kernels.Name("attention", q, cache), 0)
}

// FindPartial gets the kernel whose results, float32, are to be merged with those of other keys: behind the numbers of a head is the logarithm of the sum of the exponentials of its scores.
func FindPartial(l *kernels.Loader, q, cache graph.Type) (*driver.Kernel, error) {
	return l.Kernel("attention/simt/attention", kernels.Name("partial", q, cache), 0)
}

// Launch puts it on the stream: a warp a row, head and blockSize values, four heads a block.
func Launch(s *driver.Stream, k *driver.Kernel, rows int, p *Params) error {
	return driver.Launch(s, k, grid(rows, int(p.Heads), int(p.VSize)), p)
}

func grid(rows, heads, vSize int) driver.Grid {
	return driver.Grid{X: rows, Y: (heads + 3) / 4, Z: (vSize + blockSize - 1) / blockSize, Threads: 128}
}
