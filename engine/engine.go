// Package engine turns a program into a service: many requests at once, each a prompt and what follows it. It works
// in steps (continuous batching). In every step each chosen request moves some tokens forward; there are no phases: chunked prefill,
// prefill after a cached prefix, decoding and recomputing after preemption are all "some tokens forward".
//
//	step:  schedule ─► batch ─► Program.Run ─► sample ─► emit
//	                             └ meanwhile: admit, grammars' masks, the schedule of the next step
//
// A device that samples by itself is given the next step meanwhile, where it can run ahead; see runahead.go.
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
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/account"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/predict"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
)

// Engine runs requests on one program. Submit and Stats may be called from any goroutine; everything else happens in the
// engine's own, which owns the device.
type Engine struct {
	prog       compile.Runner
	ids        int // that tokens may have
	stepTokens int // at most
	targetITL  time.Duration
	maxWaiting int

	inbox       inbox   // what comes from other goroutines
	queue       queue   // which requests wait and run
	pages       pages   // whose tokens are in which page
	sampler     sampler // of tokens from logits
	pool        *samplerPool
	buffers     buffers   // of the steps in flight
	isolated    isolation // requests of a step that failed
	speculation speculation
	resident    residency  // adapters
	hidden      []float32  // rows of one request for hidden states
	left        []*request // by their callers, or refused by the scheduler

	times    *predict.Times  // what steps take
	divider  account.Divider // of that among requests
	meter    meter
	recorder Recorder
	intact   func() error // Options.Intact
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
	pages, err := newPages(prog, o)
	if err != nil {
		return nil, err
	}
	settings := o.sched(lim)
	e := &Engine{
		prog: prog, ids: prog.Ids(), stepTokens: settings.MaxBatchedTokens, targetITL: o.TargetITL, maxWaiting: o.waiting(),
		inbox: newInbox(), queue: queue{byID: map[int64]*request{}, stale: true}, pages: pages,
		speculation: speculation{Speculation: o.Speculation},
		times:       predict.New(o.Predictor), divider: account.NewDivider(o.Predictor), meter: meter{now: o.Clock}, recorder: o.Recorder,
	}
	settings.Price, settings.Whole = e.price, prog.Encoder()
	if pages.host != nil {
		settings.SwapPrice = e.swapPrice
	}
	if e.queue.state, err = sched.New(settings); err != nil {
		return nil, err
	}
	e.queue.cache = cache{&e.pages, e.queue.byID}
	if e.recorder == nil {
		e.recorder = unrecorded{}
	}
	if e.intact = o.Intact; e.intact == nil {
		e.intact = func() error { return nil }
	}
	if e.meter.now == nil {
		e.meter.now = time.Now
	}
	e.meter.started = e.meter.now()
	if o.Speculation.Drafter != nil {
		d, branches := o.Speculation.Drafter.(draft.Branching)
		e.speculation.acceptance.Trees = branches && d.Trees()
		e.meter.stats.DraftMethod, e.meter.stats.MaxDraft = o.Speculation.Drafter.Name(), o.Speculation.Tokens
	}
	e.resident = newResidency(lim.Adapters, settings.AgingBound)
	e.pool = newSamplerPool(prog)
	e.sampler = e.pool.sampler
	e.publish()
	return e, nil
}

// price is what the scheduler asks: how long a step takes, µs.
func (e *Engine) price(s sched.Shape) float64 {
	seconds := e.times.Price(s)
	e.recorder.Priced(seconds)
	return seconds * 1e6
}

// room is how many tokens one request may come to.
func room(lim backend.Limits) int { return min(lim.SeqPages, lim.Pages) * lim.PageSize }

// Close ends all requests with ErrClosed, waits for the engine's goroutine and frees the program.
func (e *Engine) Close() { e.inbox.close() }

// Wait waits until the engine has stopped: nil is returned after Close, and else why it could not go on.
func (e *Engine) Wait() error {
	<-e.inbox.done
	e.inbox.mu.Lock()
	defer e.inbox.mu.Unlock()
	return e.inbox.failed
}

// Drain refuses new requests with ErrDraining and waits until all others have ended. If ctx is done first it returns
// ctx's error; the engine goes on draining.
func (e *Engine) Drain(ctx context.Context) error { return e.inbox.drain(ctx) }

// Err is why the engine takes no requests now: ErrDraining, ErrClosed, or what made a step fail; nil while it does.
func (e *Engine) Err() error {
	e.inbox.mu.Lock()
	defer e.inbox.mu.Unlock()
	return e.inbox.err()
}

// Stats returns the state after the last step.
func (e *Engine) Stats() Stats {
	e.inbox.mu.Lock()
	defer e.inbox.mu.Unlock()
	return e.inbox.stats()
}

// serve steps while there is work and sleeps while there is none.
func (e *Engine) serve() {
	defer close(e.inbox.done)
	defer e.prog.Close()
	defer e.pool.close()
	defer e.sampler.drain()
	defer func() {
		if e.speculation.Drafter != nil {
			e.speculation.Drafter.Close()
		}
	}()
	var current *InFlight
	for {
		if len(e.queue.byID) == len(e.resident.blocked) && current == nil && !e.resident.freed {
			<-e.inbox.wake
			e.meter.idle()
		}
		more := false
		if current, more = e.iterate(current); !more {
			return
		}
		e.yield()
	}
}

// iterate is an iteration of the loop: new requests are queued, the next step is launched, and the one in flight collected. more is false when the engine has ended, with
// all its requests.
func (e *Engine) iterate(current *InFlight) (next *InFlight, more bool) {
	if !e.admit() {
		e.endAll(ErrClosed)
		return nil, false
	}
	next, err := e.step(current)
	if failure := (*stepFailure)(nil); errors.As(err, &failure) {
		err = e.isolate(failure)
	}
	if err != nil {
		e.inbox.fail(err)
		e.admit()
		e.endAll(err)
		return nil, false
	}
	e.publish()
	return next, true
}

// yield lets other goroutines run after a long step. Threads of the device that sample do it too: a goroutine that was woken by one
// of them is in the queue of its processor, from which no other processor takes it while all are busy.
func (e *Engine) yield() {
	if e.meter.long {
		runtime.Gosched()
	}
}

// admit queues what was submitted and ends what was given up; false when the engine is to close.
func (e *Engine) admit() bool {
	in := &e.inbox
	in.joining.Lock()
	defer in.joining.Unlock()
	in.mu.Lock()
	e.left = append(e.left[:0], in.gone...)
	clear(in.gone)
	in.gone = in.gone[:0]
	for _, r := range in.submitted {
		e.begin(r, NoParent)
		if len(r.Adapters) > 0 {
			e.block(r)
		} else if r.err = e.enqueue(r); r.err != nil {
			e.left = append(e.left, r)
		}
	}
	clear(in.submitted)
	in.submitted = in.submitted[:0]
	in.published = *e.figures()
	closed := in.closed
	in.mu.Unlock()
	e.left = append(e.left, e.unblock()...)
	for _, r := range e.left { // not while in.mu is held: the owner is called
		if e.queue.byID[r.sched.ID] == r {
			e.recorder.Left(r.sched.ID)
			e.end(r, "", cmp.Or(r.err, r.ctx.Err()))
		}
	}
	clear(e.left)
	return !closed
}

// figures are the stats as they are now.
func (e *Engine) figures() *Stats {
	s := &e.meter.stats
	e.queue.count(s)
	e.pages.count(s)
	s.Waiting += len(e.resident.blocked)
	return s
}

// publish shows other goroutines where the engine stands after a step.
func (e *Engine) publish() { e.inbox.publish(e.figures(), len(e.queue.byID)) }

// end takes a request out, gives its pages back and calls Done.
func (e *Engine) end(r *request, reason sample.Reason, err error) {
	e.queue.remove(r)
	e.pages.release(r)
	if d := e.speculation.Drafter; d != nil && r.Hidden == nil {
		d.Forget(r.sched.ID, r.tokens)
	}
	e.freeSlots(r)
	if r.output > 0 {
		e.meter.stats.ended(r.output)
	}
	r.forget()
	r.finish(Final{Reason: reason, Err: err, Cached: r.cached, Output: r.output, Drafted: r.drafted, Accepted: r.accepted, Account: r.ledger.Close(e.meter.now())})
	for _, s := range r.siblings { // the prompt was not computed, and will not be
		s.finish(Final{Err: cmp.Or(err, ErrClosed)})
	}
}

// endAll ends every request with an error.
func (e *Engine) endAll(err error) {
	for _, r := range e.queue.byID {
		e.end(r, "", err)
	}
	e.publish()
}
