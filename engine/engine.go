// Package engine turns a program into a service: many requests at once, each a prompt and what follows it. It works
// in steps. In every step each chosen request moves some tokens forward; there are no phases: reading a prompt in
// chunks, going on from a cached prefix, decoding and starting over after preemption are all "some tokens forward".
//
//	step:  schedule ─► batch ─► Program.Run ─► sample ─► emit
//	                             └ meanwhile: admit, grammars' masks, the schedule of the next step
//
// A device that samples by itself is given the next step meanwhile, as far as that can be foreseen; see step.go.
//
// A request's tokens do not depend on the requests that share its steps, nor on how its prompt was cut or what of it was
// cached: rows of a batch are computed by themselves, and the random numbers of sampling depend on the request's seed
// and position alone. On the CPU the same holds of its logits, to the bit: with weights in Q8_0 always, with others when the
// device is asked for it (cpu.Options.Deterministic). Where it is not, logits differ by what rounding explains, and so may tokens
// that are about as likely as others.
package engine

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
)

// Engine runs requests on one program. Submit and Stats may be called from any goroutine; everything else happens in the
// engine's own, which owns the device.
type Engine struct {
	prog       compile.Runner
	ids        int          // that tokens may have
	state      *sched.State // which requests wait and run
	pages      *kv.Manager  // whose tokens are in which page
	main       int          // the cache group that the scheduler knows
	swap       swapping     // pages in host memory
	swapPage   time.Duration
	stepTokens int // at most
	targetITL  time.Duration
	predicting sync.Mutex // held around the next two, which admission asks too
	predictor  Predictor  // may be nil
	measured   averages
	byID       map[int64]*request
	nextID     int64
	recorder   Recorder
	now        func() time.Time
	started    time.Time
	maxWaiting int
	stats      Stats
	history    history

	schedule sched.Schedule // of the next step
	changed  bool           // what schedule was made for has changed
	copies   []kv.Copy      // of pages, due before the next step
	buffers  buffers
	sampler  sampler
	pools    *samplerPool
	alone    graph.Step // scratch: the size of a step with one request
	ready    time.Time  // when the device had done the last step collected
	ended    time.Time  // when that step had ended; zero after the engine had nothing to do
	long     bool       // the device took long for it
	isolated []*request // of a step that failed; each is retried alone
	failures int        // steps that failed since one went well
	hidden   []float32  // rows of one request for hidden states
	left     []*request // by their callers, or refused by the scheduler

	admission sync.Mutex // held while requests join the queue; before mu
	mu        sync.Mutex
	inbox     []*request
	gone      []*request // their callers have gone
	published Stats
	wake      chan struct{} // capacity 1: something came to the inbox, or the engine is to close or drain
	draining  bool
	closed    bool
	failed    error
	drained   chan struct{} // closed when draining and empty
	done      chan struct{}
}

// New starts an engine on a program, which the engine owns from then on.
func New(prog compile.Runner, o Options) (*Engine, error) {
	e, err := newEngine(prog, o)
	if err != nil {
		return nil, err
	}
	go e.serve()
	return e, nil
}

// newEngine is an engine whose goroutine does not run.
func newEngine(prog compile.Runner, o Options) (*Engine, error) {
	lim := prog.Limits()
	if err := o.check(lim); err != nil {
		return nil, err
	}
	index, err := o.index()
	if err != nil {
		return nil, err
	}
	pages, main, err := newManager(prog.Groups(), lim, index)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		prog: prog, ids: prog.Ids(), pages: pages, main: main, predictor: o.Predictor, byID: map[int64]*request{}, maxWaiting: o.waiting(),
		pools: newSamplerPool(prog), changed: true, wake: make(chan struct{}, 1),
		drained: make(chan struct{}), done: make(chan struct{}),
	}
	settings := o.sched(lim)
	settings.Price, settings.Whole = e.price, prog.Encoder()
	if err := e.swap.init(prog.Groups(), lim); err != nil {
		return nil, err
	}
	e.swapPage, e.targetITL, e.stepTokens = o.SwapPage, o.TargetITL, settings.MaxBatchedTokens
	if e.swap.host != nil {
		settings.SwapPrice = e.swapPrice
	}
	if e.state, err = sched.New(settings); err != nil {
		return nil, err
	}
	if e.recorder = o.Recorder; e.recorder == nil {
		e.recorder = unrecorded{}
	}
	if e.now = o.Clock; e.now == nil {
		e.now = time.Now
	}
	e.started = e.now()
	e.sampler = e.pools.sampler
	e.publish()
	return e, nil
}

// since is the time since t by the engine's clock.
func (e *Engine) since(t time.Time) time.Duration { return e.now().Sub(t) }

// room is how many tokens one request may come to.
func room(lim backend.Limits) int { return min(lim.SeqPages, lim.Pages) * lim.PageSize }

func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close ends all requests with ErrClosed, waits for the engine's goroutine and frees the program.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	e.signal()
	e.mu.Unlock()
	<-e.done
}

// Wait waits until the engine has stopped: nil is returned after Close, and else why it could not go on.
func (e *Engine) Wait() error {
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

// Drain refuses new requests with ErrDraining and waits until all others have ended. If ctx is done first it returns
// ctx's error; the engine goes on draining.
func (e *Engine) Drain(ctx context.Context) error {
	e.mu.Lock()
	e.draining = true
	e.signal()
	e.mu.Unlock()
	select {
	case <-e.drained:
	case <-e.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Err is why the engine takes no requests now: ErrDraining, ErrClosed, or what made a step fail; nil while it does.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.failed != nil:
		return e.failed
	case e.closed:
		return ErrClosed
	case e.draining:
		return ErrDraining
	}
	return nil
}

// serve steps while there is work and sleeps while there is none.
func (e *Engine) serve() {
	defer close(e.done)
	defer e.prog.Close()
	defer e.pools.close()
	defer e.sampler.drain()
	var current *InFlight
	for {
		if len(e.byID) == 0 && current == nil {
			<-e.wake
			e.ended = time.Time{}
		}
		if !e.admit() {
			e.endAll(ErrClosed)
			return
		}
		next, err := e.step(current)
		if failure := (*stepFailure)(nil); errors.As(err, &failure) {
			err = e.isolate(failure)
		}
		if current = next; err != nil {
			e.mu.Lock()
			e.failed = err
			e.mu.Unlock()
			e.admit()
			e.endAll(err)
			return
		}
		e.settle()
		e.yield()
	}
}

// longStep is how long a step must be for the goroutines that pass its tokens on to be let onto the processor: behind longer ones they
// would come late by the 10 ms after which Go takes a processor away. Short steps leave them gaps enough, and would be held up.
const longStep = 2 * time.Millisecond

// yield lets other goroutines run after a long step. Threads of the device that sample do it too: a goroutine that was woken by one
// of them is in the queue of its processor, from which no other processor takes it while all are busy.
func (e *Engine) yield() {
	if e.long {
		runtime.Gosched()
	}
}

// admit queues what was submitted and ends what was given up; false when the engine is to close.
func (e *Engine) admit() bool {
	e.admission.Lock()
	defer e.admission.Unlock()
	e.mu.Lock()
	e.left = append(e.left[:0], e.gone...)
	clear(e.gone)
	e.gone = e.gone[:0]
	for _, r := range e.inbox {
		e.begin(r, NoParent)
		if r.err = e.queue(r); r.err != nil {
			e.left = append(e.left, r)
		}
	}
	clear(e.inbox)
	e.inbox = e.inbox[:0]
	e.publish()
	closed := e.closed
	e.mu.Unlock()
	for _, r := range e.left { // not while e.mu is held: the owner is called
		if e.byID[r.sched.ID] == r {
			e.recorder.Left(r.sched.ID)
			e.end(r, "", cmp.Or(r.err, r.ctx.Err()))
		}
	}
	clear(e.left)
	return !closed
}

// settle shows where the engine stands after a step.
func (e *Engine) settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.publish()
	if !e.draining || len(e.byID) > 0 || len(e.inbox) > 0 {
		return
	}
	select {
	case <-e.drained:
	default:
		close(e.drained)
	}
}

// end takes a request out, gives its pages back and tells its owner.
func (e *Engine) end(r *request, reason sample.Reason, err error) {
	e.state.Remove(&r.sched)
	e.release(r)
	delete(e.byID, r.sched.ID)
	if r.output > 0 {
		e.stats.ended(r.output)
	}
	e.changed, r.ended = true, true
	r.forget()
	r.finish(Final{Reason: reason, Err: err, Cached: r.cached, Output: r.output, Account: r.account.close(e.now())})
	for _, s := range r.siblings { // the prompt was not computed, and will not be
		s.finish(Final{Err: cmp.Or(err, ErrClosed)})
	}
}

// endAll ends every request with an error.
func (e *Engine) endAll(err error) {
	for _, r := range e.byID {
		e.end(r, "", err)
	}
	e.mu.Lock()
	e.publish()
	e.mu.Unlock()
}
