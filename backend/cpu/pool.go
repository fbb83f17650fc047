package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
)

// pool is a fixed set of workers that run a program in step: all of them enter every launch, each does its share, and
// a barrier lies between launches. Worker 0 is the goroutine that calls run; the others live as long as the pool.
//
// A waiting worker spins first, because the next launch is usually microseconds away, and parks when it is not.
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
	p := &pool{}
	p.start.parties, p.step.parties = int32(threads), int32(threads)
	for i := range threads {
		p.workers = append(p.workers, &worker{id: i, n: threads, pool: p, scratch: gemm.NewScratch()})
	}
	for _, w := range p.workers[1:] {
		go w.serve()
	}
	return p
}

// serve runs jobs until the pool is closed.
func (w *worker) serve() {
	runtime.LockOSThread()
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

// patience is how long a waiting worker looks before it parks: waking it again costs some tens of microseconds.
const patience = 50 * time.Microsecond

// gate is a barrier that can be used again and again.
type gate struct {
	parties int32
	arrived atomic.Int32
	_       [64]byte      // those who wait look at passed; they should not be disturbed by those who arrive
	passed  atomic.Uint32 // generation
	parked  atomic.Int32
	mu      sync.Mutex
	wake    *sync.Cond
}

// wait returns when all parties have called it.
func (g *gate) wait() {
	generation := g.passed.Load()
	if g.arrived.Add(1) == g.parties {
		g.arrived.Store(0)
		g.passed.Add(1)
		if g.parked.Load() > 0 {
			g.mu.Lock()
			g.wake.Broadcast()
			g.mu.Unlock()
		}
		return
	}
	for start := time.Now(); time.Since(start) < patience; {
		for range 16 { // looks for each at the clock
			if g.passed.Load() != generation {
				return
			}
			vec.Pause(1)
		}
	}
	g.mu.Lock()
	if g.wake == nil {
		g.wake = sync.NewCond(&g.mu)
	}
	g.parked.Add(1)
	for g.passed.Load() == generation {
		g.wake.Wait()
	}
	g.parked.Add(-1)
	g.mu.Unlock()
}
