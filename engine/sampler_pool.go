package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
)

// worthSharing is how many logits there must be before they are worth waking other threads for.
const worthSharing = 1 << 15

// samplerPool is the threads that sample and hand out the tokens of a step: a row of 128k logits takes 0.05 to 0.3 ms, and the
// device has nothing to do meanwhile. Threads that a device on the processor keeps awake between its steps are borrowed: others
// would not get a core.
type samplerPool struct {
	sampler sampler
	step    *InFlight
	next    atomic.Int32         // the first of its outputs that no thread has begun
	work    func(thread int)     // takes outputs until there are none left
	lender  backend.ThreadLender // nil: the pool has threads of its own
	start   []chan struct{}      // of each of those, beside the engine's own, thread 0
	busy    sync.WaitGroup
	yield   bool // a lent thread lets the goroutines run that its tokens have woken, see loop.serve
}

// newSamplerPool is the pool for a program. close ends its own threads.
func newSamplerPool(prog compile.Runner) *samplerPool {
	p := &samplerPool{}
	threads := 0
	if p.lender, threads = prog.ThreadLender(); p.lender == nil {
		threads = min(runtime.GOMAXPROCS(0), prog.Limits().Logits)
	}
	p.sampler = newSampler(prog, threads)
	p.work = func(thread int) {
		for i := int(p.next.Add(1)) - 1; i < len(p.step.outputs); i = int(p.next.Add(1)) - 1 {
			p.step.outputs[i].take(p.sampler, p.step, thread)
		}
		if thread > 0 && p.yield {
			runtime.Gosched()
		}
	}
	if p.lender != nil {
		return p
	}
	for i := 1; i < threads; i++ {
		start := make(chan struct{}, 1)
		p.start = append(p.start, start)
		go func() {
			for range start {
				p.work(i)
				p.busy.Done()
			}
		}()
	}
	return p
}

// take takes the outputs of a step, which may have been a long one, and returns when all are done.
func (p *samplerPool) take(f *InFlight, long bool) {
	p.step, p.yield = f, long && p.lender != nil
	p.next.Store(0)
	n := len(f.outputs)
	switch {
	case n < 2 || n*p.sampler.work() < worthSharing:
		p.work(0)
	case p.lender != nil:
		p.lender.RunThreads(p.work)
	default:
		helpers := p.start[:min(n-1, len(p.start))]
		p.busy.Add(len(helpers))
		for _, start := range helpers {
			start <- struct{}{}
		}
		p.work(0)
		p.busy.Wait()
	}
}

func (p *samplerPool) close() {
	for _, start := range p.start {
		close(start)
	}
}
