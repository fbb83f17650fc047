package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
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

// spins is how often a waiting worker looks before it parks: some tens of microseconds.
const spins = 20000

// gate is a barrier that can be used again and again.
type gate struct {
	parties int32
	arrived atomic.Int32
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
	for range spins {
		if g.passed.Load() != generation {
			return
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
