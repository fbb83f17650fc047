// Package indexer chooses the keys that each row attends to (graph.TopKeys): the indexer of sparse attention.
package indexer

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// MaxSize is the largest key that there are kernels for.
const MaxSize = 256

// Params mirrors TopKeysParams of indexer.h.
type Params struct {
	Step                      kernels.Step
	Q, W, Cache               driver.Ptr // [T, Heads × Size], [T, Heads]; pages of a latent cache
	Scores                    driver.Ptr // [rows of a pass][Stride] float32
	Chosen                    driver.Ptr // [T, TopK] float32
	Heads, Size, TopK, Stride int32
	Row0, _                   int32      // the pass's first row
	TreeLen, Ancestors        driver.Ptr // [S] int32 and [T] uint64, see backend.Batch; 0 without token trees
}

// Kernel is a problem bound to its kernels.
type Kernel struct {
	scores, choose *driver.Kernel
	keys           int // of a block of scores
	bytes          int64
}

// passBytes is how much a pass's scores may take, unless one row's take more.
const passBytes = 64 << 20

// Scratch is the memory for the scores of a pass of up to so many rows, of sequences of up to so many keys, in bytes.
func Scratch(rows, keys int) int64 {
	row := 4 * int64(keys)
	return min(int64(rows)*row, max(row, passBytes))
}

// onTensorCores reports whether the products of keys of a size can be made there.
func onTensorCores(size int, q, cache graph.Type) bool {
	return q == graph.BF16 && cache == graph.BF16 && (size == 32 || size == 64 || size == 128)
}

// New finds the kernels for queries and keys of these types; scratch is as much memory as Scores has.
func New(l *kernels.Loader, size int, q, cache graph.Type, scratch int64) (*Kernel, error) {
	name, k := kernels.Name("index_scores", q, cache), &Kernel{bytes: scratch, keys: 128}
	if onTensorCores(size, q, cache) {
		name = fmt.Sprintf("index_scores_mma_%d", size)
	}
	var err error
	if k.scores, err = l.Kernel("attention/indexer/scores", name, 0); err != nil {
		return nil, err
	}
	k.choose, err = l.Kernel("attention/indexer/select", "select_keys", 0)
	return k, err
}

// Launch puts them on the stream for a step's rows, as many at a time as there is memory for their scores.
func (k *Kernel) Launch(s *driver.Stream, rows int, p *Params) error {
	p.Stride = p.Step.SeqPages << p.Step.PageShift
	pass := int(min(int64(rows), max(1, k.bytes/(4*int64(p.Stride)))))
	for from := 0; from < rows; from += pass {
		p.Row0 = int32(from)
		n := min(pass, rows-from)
		if p.Stride > p.TopK { // otherwise all keys are chosen
			if err := driver.Launch(s, k.scores, driver.Grid{X: (int(p.Stride) + k.keys - 1) / k.keys, Y: n, Threads: 128}, p); err != nil {
				return err
			}
		}
		if err := driver.Launch(s, k.choose, driver.Grid{X: n, Threads: 512}, p); err != nil {
			return err
		}
	}
	return nil
}
