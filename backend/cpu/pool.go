package cpu

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// pool is a fixed set of workers that run a program in step: all of them enter every launch, each does its share, and
// a barrier lies between launches (see gate). Worker 0 is the goroutine that calls run; the others live as long as the
// pool.
type pool struct {
	workers []*worker
	mu      sync.Mutex // held while a job runs: devices that share the pool run one job after the other
	job     func(*worker)
	start   gate // passed once per run, by all workers
	step    gate // passed between launches and by kernels of several phases
	end     gate // passed once per run, when all have done the job
	failure atomic.Pointer[failure]
}

// worker is one of the pool's threads.
type worker struct {
	id, n    int // its number, and how many there are
	pool     *pool
	tier     gemm.Tier
	scratch  *gemm.Scratch
	acts     gemm.Acts     // of the product at hand
	out      []float32     // and where its results go: [rows][rows of the matrix]
	next     *gemm.Weights // of the product after it
	rounding rounding      // of the launch at hand
	buffer   []byte        // packed weights that are not kept, see firstuse.go
	view     gemm.Weights  // of the buffer
	done     span          // rows of the matrix at hand that it has packed, and not let go of in the file

	on    []int // processors that it is bound to; nil: any
	bound int   // the thread that is

	part, parts int // which part of its rows it is at, see chains
}

// newPool makes workers, of whom whoever calls run is the first, and binds each to the processors of a NUMA node if there are
// several nodes: what a worker is the first to write, such as its part of packed weights, then lies in its node's memory, and
// stays near it.
func newPool(tier gemm.Tier, threads int, t topology) *pool {
	p := &pool{
		start: gate{parties: int32(threads), patience: betweenSteps},
		step:  gate{parties: int32(threads), patience: withinStep},
		end:   gate{parties: int32(threads), patience: withinStep},
	}
	if threads > runtime.GOMAXPROCS(0) { // a worker that waits keeps another from running
		p.start.patience, p.step.patience, p.end.patience = alone, alone, alone
	}
	for i := range threads {
		w := &worker{id: i, n: threads, pool: p, tier: tier, scratch: gemm.NewScratch()}
		if len(t.nodes) > 1 {
			w.on = t.nodes[t.place(i, threads)]
		}
		p.workers = append(p.workers, w)
	}
	for _, w := range p.workers[1:] {
		go w.serve()
	}
	return p
}

// serve runs jobs until the pool is closed. The goroutine is not locked to its thread unless it is bound: it takes the system
// two wake-ups instead of one to go on with a goroutine that is.
func (w *worker) serve() {
	w.bind()
	for {
		w.pool.start.wait(w)
		if w.pool.job == nil {
			return
		}
		w.do()
		w.pool.end.wait(w)
	}
}

// run lets every worker do job and returns when all are done. If job panics in one of them, whichever it is, the others
// leave it at the next barrier and run panics, with a *failure; the pool can be used again.
func (p *pool) run(job func(*worker)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.job = job
	p.workers[0].bind()
	p.start.wait(p.workers[0])
	p.workers[0].do()
	p.end.wait(p.workers[0])
	if f := p.failure.Swap(nil); f != nil {
		p.step.repair()
		panic(f)
	}
}

// dropBuffers frees what packed weights passed through. A device that shares the pool and still needs them gets new ones.
func (p *pool) dropBuffers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		w.buffer = nil
	}
}

// bind keeps the goroutine on its thread, and that on the worker's node, where there are several. Worker 0 is whoever runs a
// job, mostly the engine's goroutine.
func (w *worker) bind() {
	if w.on == nil || threadID() == w.bound {
		return
	}
	runtime.LockOSThread()
	bindThread(w.on)
	w.bound = threadID()
}

// failure is the first panic of a run.
type failure struct {
	value any
	stack []byte
}

func (f *failure) Error() string {
	return fmt.Sprintf("cpu: a kernel panicked: %v\n%s", f.value, f.stack)
}

// do is the worker's part of the job. If it panics, nobody waits for it any more.
func (w *worker) do() {
	defer func() {
		if v := recover(); v != nil && v != any(errBroken) {
			w.pool.failure.CompareAndSwap(nil, &failure{v, debug.Stack()})
			w.pool.step.shatter()
		}
	}()
	w.pool.job(w)
}

// close ends the workers.
func (p *pool) close() {
	p.job = nil
	p.start.wait(p.workers[0])
}

// sync waits until all workers have come here. It panics if one of them never will; see run.
func (w *worker) sync() { w.pool.step.wait(w) }

// share is the worker's part of n items, in whole multiples of granule; parts differ by at most one granule.
func (w *worker) share(n, granule int) (from, to int) {
	pieces := (n + granule - 1) / granule
	from = pieces * w.id / w.n * granule
	to = min(pieces*(w.id+1)/w.n*granule, n)
	return min(from, n), to
}

// expect tells the worker's scratch that its part of these weights comes now, and of the next product's after that.
func (w *worker) expect(weights *gemm.Weights) {
	from, to := blocksOf(weights, w.n).span(w.id)
	nextFrom, nextTo := 0, 0
	if w.next != nil {
		nextFrom, nextTo = blocksOf(w.next, w.n).span(w.id)
	}
	w.scratch.PrefetchWeights(weights, from, to, w.next, nextFrom, nextTo)
}

// columns is the worker's part of n columns of all rows.
func (w *worker) columns(n int) (from, to int) { return w.share(n, columnGranule(n, w.n)) }

// columnGranule is the step in which n columns are divided among workers: groups of numbers that may share a scale where each
// worker gets some of them.
func columnGranule(n, workers int) int {
	for group := 128; group > gemm.NR; group /= 2 {
		if n%group == 0 && n/group >= 4*workers {
			return group
		}
	}
	return gemm.NR
}
