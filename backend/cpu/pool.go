package cpu

import (
	"runtime"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// pool is a fixed set of workers that run a program in step: all of them enter every launch, each does its share, and
// a barrier lies between launches (see gate). Worker 0 is the goroutine that calls run; the others live as long as the
// pool.
type pool struct {
	workers []*worker
	job     func(*worker)
	start   gate // passed once per run, by all workers
	step    gate // passed between launches and by kernels of several phases
}

// worker is one of the pool's threads.
type worker struct {
	id, n   int // its number, and how many there are
	pool    *pool
	scratch *gemm.Scratch
	acts    gemm.Acts // of the product at hand
}

func newPool(threads int) *pool {
	p := &pool{
		start: gate{parties: int32(threads), patience: betweenSteps},
		step:  gate{parties: int32(threads), patience: withinStep},
	}
	if threads > runtime.GOMAXPROCS(0) { // a worker that waits keeps another from running
		p.start.patience, p.step.patience = alone, alone
	}
	for i := range threads {
		p.workers = append(p.workers, &worker{id: i, n: threads, pool: p, scratch: gemm.NewScratch()})
	}
	for _, w := range p.workers[1:] {
		go w.serve()
	}
	return p
}

// serve runs jobs until the pool is closed. The goroutine is not locked to its thread: it takes the system two wake-ups
// instead of one to go on with a goroutine that is.
func (w *worker) serve() {
	for {
		w.pool.start.wait()
		if w.pool.job == nil {
			return
		}
		w.pool.job(w)
		w.pool.step.wait()
	}
}

// run lets every worker do job and returns when all are done.
func (p *pool) run(job func(*worker)) {
	p.job = job
	p.start.wait()
	job(p.workers[0])
	p.step.wait()
}

// close ends the workers.
func (p *pool) close() {
	p.job = nil
	p.start.wait()
}

// sync waits until all workers have come here.
func (w *worker) sync() { w.pool.step.wait() }

// share is the worker's part of n items, in whole multiples of granule; parts differ by at most one granule.
func (w *worker) share(n, granule int) (from, to int) {
	pieces := (n + granule - 1) / granule
	from = pieces * w.id / w.n * granule
	to = min(pieces*(w.id+1)/w.n*granule, n)
	return min(from, n), to
}

// columns is the worker's part of the columns of a matrix: the rows of the weight that makes them.
func (w *worker) columns(n int) (from, to int) { return w.share(n, gemm.Granule) }
