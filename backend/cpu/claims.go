package cpu

import (
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// blockBytes is about what a worker takes of a matrix at a time: microseconds of work.
const blockBytes = 64 << 10

// blocks is how the rows of a matrix are divided among workers: each has an even part of them, in whole blocks.
type blocks struct {
	rows, block, count int
	workers            int
}

func blocksOf(w *gemm.Weights, workers int) blocks {
	block := max(1, blockBytes/int(gemm.NR*w.Format.RowBytes(w.Cols))) * gemm.NR
	return blocks{w.Rows, block, (w.Rows + block - 1) / block, workers}
}

// part is a worker's blocks.
func (b blocks) part(worker int) (from, to int) {
	return b.count * worker / b.workers, b.count * (worker + 1) / b.workers
}

// span is their rows.
func (b blocks) span(worker int) (from, to int) {
	from, to = b.part(worker)
	return min(from*b.block, b.rows), min(to*b.block, b.rows)
}

// claims hands out the blocks of a product. Workers take their own from the front; one that is done helps the others from
// the back of theirs: cores are never equally fast for long, and everyone waits for the slowest.
type claims struct {
	blocks
	taken []taken // of each worker's part
}

// taken is step << 32 | blocks from the back << 16 | blocks from the front.
type taken struct {
	atomic.Uint64
	_ [56]byte // a cache line of its own
}

// mostBlocks is how many of its own blocks a worker takes at once, as long as they are no more than a quarter of what is left of
// them: between two calls of Mul memory rests.
const mostBlocks = 4

// take gives the worker rows to compute in this step, of at most so many blocks, none when all are taken. Steps are never 0.
func (c *claims) take(step uint32, worker, most int) (from, to int) {
	for i := range c.workers {
		other := (worker + i) % c.workers
		first, last := c.part(other)
		for {
			now := c.taken[other].Load()
			next := now
			if uint32(now>>32) != step {
				next = uint64(step) << 32
			}
			front, back := int(next&0xffff), int(next>>16&0xffff)
			if first+front+back >= last {
				break
			}
			n := max(1, min(most, (last-first-front-back)/4))
			block, more := first+front, uint64(n)
			if i > 0 {
				n, block, more = 1, last-1-back, 1<<16
			}
			if c.taken[other].CompareAndSwap(now, next+more) {
				return block * c.block, min((block+n)*c.block, c.rows)
			}
		}
	}
	return 0, 0
}
