package threads

import "sync/atomic"

// Blocks is how the rows of a matrix are divided among workers: each has an equal part of them, in whole blocks.
type Blocks struct {
	Rows, Size int // rows in all, and in a block
	count      int
	workers    int
}

// NewBlocks divides rows, in blocks of size, among workers.
func NewBlocks(rows, size, workers int) Blocks {
	return Blocks{rows, size, (rows + size - 1) / size, workers}
}

// part is a worker's blocks.
func (b Blocks) part(worker int) (from, to int) {
	return b.count * worker / b.workers, b.count * (worker + 1) / b.workers
}

// Span is the rows of a worker's blocks.
func (b Blocks) Span(worker int) (from, to int) {
	from, to = b.part(worker)
	return min(from*b.Size, b.Rows), min(to*b.Size, b.Rows)
}

// BlockQueue is a work-stealing queue of the blocks of a matmul. Workers take their own blocks from the front; one that is done
// steals from the back of the others': cores are never equally fast for long, and all wait for the slowest.
type BlockQueue struct {
	Blocks
	taken []taken // of each worker's part
}

// taken is step << 32 | items taken from the back << 16 | items taken from the front.
type taken struct {
	atomic.Uint64
	_ [56]byte // a cache line of its own
}

// NewBlockQueue is a queue of the blocks of each step.
func NewBlockQueue(b Blocks) *BlockQueue { return &BlockQueue{b, make([]taken, b.workers)} }

// Next takes rows for the worker to compute in this step, of at most so many of its own blocks or one of another's; from is
// not less than to when all are taken. A step with another number than the last begins with all blocks; numbers are never 0.
func (q *BlockQueue) Next(step uint32, worker, most int) (from, to int) {
	for i := range q.workers {
		other := (worker + i) % q.workers
		first, last := q.part(other)
		for {
			now := q.taken[other].Load()
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
			if q.taken[other].CompareAndSwap(now, next+more) {
				return block * q.Size, min((block+n)*q.Size, q.Rows)
			}
		}
	}
	return 0, 0
}
