package threads

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/ridge-llm/ridge/internal/background"
)

// Pool is a fixed set of workers that run a job in lockstep: all of them enter it, and meet at spin barriers inside it. Worker 0 is
// the goroutine that calls Run; the others are goroutines that live as long as the pool.
type Pool struct {
	workers []worker
	job     func(id int)
	start   barrier // passed once per run, by all workers
	step    barrier // passed by Sync
	end     barrier // passed once per run, when all have done the job
	failure atomic.Pointer[failure]
	crowded bool // the workers take all of the process's processors
}

// worker is one of the pool's threads.
type worker struct {
	on    []int // processors that it is bound to; nil: any
	bound int   // id of the thread that is
}

// New starts a pool of n workers, and binds each to the processors of a NUMA node if there are several nodes: by first touch, what
// a worker is the first to write, such as its part of packed weights, is then in its node's memory. While a worker waits at
// a barrier it calls idle, which may use the time for a few hundred ns and reports whether it did; nil: it only pauses.
func New(n int, t Topology, idle func(id int) bool) *Pool {
	if idle == nil {
		idle = func(int) bool { return false }
	}
	p := &Pool{
		workers: make([]worker, n),
		crowded: n >= runtime.NumCPU() || t.Quota() > 0,
		start:   barrier{parties: int32(n), spinLimit: spinBetweenSteps, idle: idle},
		step:    barrier{parties: int32(n), spinLimit: spinWithinStep, idle: idle},
		end:     barrier{parties: int32(n), spinLimit: spinWithinStep, idle: idle},
	}
	if n > runtime.GOMAXPROCS(0) { // a worker that spins keeps another from running
		p.start.spinLimit, p.step.spinLimit, p.end.spinLimit = spinBeforeYield, spinBeforeYield, spinBeforeYield
	}
	for i := range n {
		if len(t.nodes) > 1 {
			p.workers[i].on = t.nodes[t.node(i, n)]
		}
	}
	for i := 1; i < n; i++ {
		go p.serve(i)
	}
	return p
}

// N is how many workers there are.
func (p *Pool) N() int { return len(p.workers) }

// serve runs jobs until the pool is closed. The goroutine is not locked to its thread unless it is bound: waking a locked
// goroutine takes the system two wake-ups instead of one.
func (p *Pool) serve(id int) {
	p.workers[id].bind()
	for {
		p.start.wait(id)
		if p.job == nil {
			return
		}
		p.do(id)
		p.end.wait(id)
	}
}

// Run has every worker call job with its number and returns when all are done. If job panics in one of them, the others leave it
// at the next barrier and Run panics, with an error; the pool can be used again. Meanwhile work in the background takes short turns, if the workers leave it no processor.
func (p *Pool) Run(job func(id int)) {
	if p.crowded {
		background.StepBegins()
		defer background.StepEnds()
	}
	p.job = job
	p.workers[0].bind()
	p.start.wait(0)
	p.do(0)
	p.end.wait(0)
	if f := p.failure.Swap(nil); f != nil {
		p.step.reset()
		panic(f)
	}
}

// bind keeps the goroutine on its thread, and that on the worker's node, where there are several. Worker 0 is the caller of
// Run, mostly the engine's goroutine.
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

// do is worker id's part of the job. If it panics, the others stop waiting for it.
func (p *Pool) do(id int) {
	// A file that was cut while it is mapped: the fault is a panic, also in assembly, which must not have a frame on the stack then.
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if v := recover(); v != nil && v != any(errAborted) {
			p.failure.CompareAndSwap(nil, &failure{v, debug.Stack()})
			p.step.abort()
		}
	}()
	p.job(id)
}

// Close ends the workers.
func (p *Pool) Close() {
	p.job = nil
	p.start.wait(0)
}

// Sync is a barrier: it returns when all workers have called it. It panics if one of them panicked; see Run.
func (p *Pool) Sync(id int) { p.step.wait(id) }

// Share is the part of worker id, of so many workers, of n items, in whole multiples; parts differ by at most one multiple.
func Share(id, workers, n, multiple int) (from, to int) {
	parts := (n + multiple - 1) / multiple
	from = parts * id / workers * multiple
	to = min(parts*(id+1)/workers*multiple, n)
	return min(from, n), to
}
