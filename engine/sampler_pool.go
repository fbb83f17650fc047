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
	prompts bool                 // its prompts' rows are taken, not its outputs
	n       int                  // of them
	next    atomic.Int32         // the first of them that no thread has begun
	work    func(thread int)     // takes them until there are none left
	lender  backend.ThreadLender // nil: the pool has threads of its own
	start   []chan struct{}      // of each of those, beside the engine's own, thread 0
	busy    sync.WaitGroup
	yield   bool // a lent thread lets the goroutines run that its tokens have woken, see loop.serve
}

// newSamplerPool is the pool for a program, see newSampler. close ends its own threads.
func newSamplerPool(prog compile.Runner, onHost bool) *samplerPool {
	p := &samplerPool{}
	threads := 0
	if p.lender, threads = prog.ThreadLender(); p.lender == nil {
		threads = min(runtime.GOMAXPROCS(0), prog.Limits().Logits)
	}
	p.sampler = newSampler(prog, threads, onHost)
	p.work = func(thread int) {
		for i := int(p.next.Add(1)) - 1; i < p.n; i = int(p.next.Add(1)) - 1 {
			if p.prompts {
				p.step.prompts[i].take(p.sampler, p.step, thread)
			} else {
				p.step.outputs[i].take(p.sampler, p.step, thread)
			}
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
func (p *samplerPool) take(f *InFlight, long bool) { p.share(f, false, len(f.outputs), long) }

// takePrompts finds the log-probabilities of the step's prompts.
func (p *samplerPool) takePrompts(f *InFlight, long bool) { p.share(f, true, len(f.prompts), long) }

// share divides so many outputs, or rows of prompts, among the threads.
func (p *samplerPool) share(f *InFlight, prompts bool, n int, long bool) {
	p.step, p.prompts, p.n, p.yield = f, prompts, n, long && p.lender != nil
	p.next.Store(0)
	switch {
	case n < 2 || p.sampler.work(f) < worthSharing:
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
