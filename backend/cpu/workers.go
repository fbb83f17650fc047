package cpu

import (
	"sync"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/threads"
)

// workers are the device's threads with what each has at hand. While one waits at a barrier, it prefetches its next weights.
type workers struct {
	*threads.Pool
	all []*worker
	mu  sync.Mutex // held while a job runs: devices that share the threads run one job after the other
	job func(*worker)
	do  func(id int) // calls job; made once, so that a step allocates nothing
}

// worker is the state of one thread.
type worker struct {
	_ [64]byte // a cache line between two workers' fields, which each writes all the time

	id, n   int // its number, and how many there are
	pool    *threads.Pool
	scratch *gemm.Scratch

	acts gemm.Acts     // activations of the current matmul
	out  []float32     // and its results: [rows][rows of the matrix]
	next *gemm.Weights // weights of the matmul after it
	q8   scaleGroups   // of the current launch

	found, places []uintptr // of what adapters read next, see lora.beside

	packBuffer []byte       // packed weights that are not kept, see lazy_pack.go
	view       gemm.Weights // of packBuffer
	packed     rowRange     // rows of the current matrix that it has packed, and not released in the file

	block, blocks int // which row block it is at, of how many, see row_blocks.go

	_ [64]byte
}

func newWorkers(tier gemm.Tier, n int, t threads.Topology) *workers {
	p := &workers{}
	for i := range n {
		p.all = append(p.all, &worker{id: i, n: n, scratch: gemm.NewScratch()})
	}
	p.Pool = threads.New(n, t, func(id int) bool { return p.all[id].scratch.PrefetchNext(tier) })
	for _, w := range p.all {
		w.pool = p.Pool
	}
	p.do = func(id int) { p.job(p.all[id]) }
	return p
}

// run lets every worker do job; see threads.Pool.Run.
func (p *workers) run(job func(*worker)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.job = job
	p.Run(p.do)
}

// dropBuffers frees the workers' pack buffers. A device that shares the threads and still needs them gets new ones.
func (p *workers) dropBuffers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.all {
		w.packBuffer = nil
	}
}

// sync is a barrier of all workers; see threads.Pool.Sync.
func (w *worker) sync() { w.pool.Sync(w.id) }

// share is the worker's part of n items, in whole multiples.
func (w *worker) share(n, multiple int) (from, to int) { return threads.Share(w.id, w.n, n, multiple) }

// blockBytes is about what a worker takes of a matrix at a time: microseconds of work.
const blockBytes = 64 << 10

// blocksOf is how the rows of a matrix are divided among workers.
func blocksOf(w *gemm.Weights, workers int) threads.Blocks {
	size := max(1, blockBytes/int(gemm.NR*w.Format.RowBytes(w.Cols))) * gemm.NR
	return threads.NewBlocks(w.Rows, size, workers)
}

// prefetch announces that the worker's part of these weights is multiplied with now, and of the next matmul's after that.
func (w *worker) prefetch(weights *gemm.Weights) {
	from, to := blocksOf(weights, w.n).Span(w.id)
	nextFrom, nextTo := 0, 0
	if w.next != nil {
		nextFrom, nextTo = blocksOf(w.next, w.n).Span(w.id)
	}
	w.scratch.PrefetchWeights(weights, from, to, w.next, nextFrom, nextTo)
}

// columns is the worker's part of n columns of all rows.
func (w *worker) columns(n int) (from, to int) { return w.share(n, columnMultiple(n, w.n)) }

// columnMultiple is the multiple in which n columns are divided among workers: groups of numbers that may share a scale where
// each worker gets some of them.
func columnMultiple(n, workers int) int {
	for group := 128; group > gemm.NR; group /= 2 {
		if n%group == 0 && n/group >= 4*workers {
			return group
		}
	}
	return gemm.NR
}
