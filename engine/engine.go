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
// that are about as likely as others. Masked diffusion models are the exception: what is in the cache of a request to one depends on the step that it was computed in,
// and so on whether the request was preempted; see denoise.go.
package engine

import (
	"context"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/offload"
)

// Engine runs requests on one program. Its methods may be called from any goroutine; what runs the requests is the loop, in a goroutine
// of its own.
type Engine struct {
	inbox     inbox     // what the goroutines share
	admission admission // which requests are taken
	history   history   // of steps
	loop      loop
}

// New starts an engine on a program, which the engine owns from then on.
func New(prog compile.Runner, o Options) (*Engine, error) {
	e, err := newEngine(prog, o)
	if err != nil {
		return nil, err
	}
	go e.loop.serve()
	return e, nil
}

// newEngine is an engine whose goroutine does not run.
func newEngine(prog compile.Runner, o Options) (*Engine, error) {
	if err := o.check(prog.Limits()); err != nil {
		return nil, err
	}
	if err := o.checkDiffusion(prog); err != nil {
		return nil, err
	}
	e := &Engine{inbox: newInbox()}
	if err := e.loop.init(prog, o, &e.inbox, &e.history); err != nil {
		return nil, err
	}
	m := &e.loop.meter
	e.admission = admission{
		prog: prog, ids: prog.Ids(), diffusion: o.Diffusion, inbox: &e.inbox, clock: m.clock, times: m.times,
		stepTokens: o.sched(prog.Limits()).MaxBatchedTokens, targetITL: o.TargetITL, itlRatio: o.ITLRatio, maxWaiting: o.waiting(),
	}
	if e.loop.pages.kept != nil {
		e.admission.keys = e.loop.pages.Keys
	}
	return e, nil
}

// room is how many tokens one request may come to.
func room(lim backend.Limits) int { return min(lim.SeqPages, lim.OfRank().Pages) * lim.PageSize }

// Submit hands a request over. What can never run is refused with an *InvalidError that has the numbers; what comes when
// the queue is full with a *FullError; what could not begin to answer before ctx's deadline with a *LateError. Emit is
// called for every token and Done once, one call at a time, while the engine waits: they must not block. Once ctx is
// done the request ends within one step. Siblings are further answers to the same prompt, which is computed once; all are
// taken or none.
func (e *Engine) Submit(ctx context.Context, r Request, siblings ...Request) error {
	return e.admission.submit(ctx, r, siblings)
}

// Together holds admission back while submit runs, so that all that it submits joins the queue at once.
func (e *Engine) Together(submit func()) {
	e.inbox.joining.Lock()
	defer e.inbox.joining.Unlock()
	submit()
}

// Kept is what keeps pages beyond the device; nil where nothing does. Its Await and Release are for other servers.
func (e *Engine) Kept() *offload.Tier {
	if e.loop.pages.kept == nil {
		return nil
	}
	return e.loop.pages.kept.Tier
}

// Close ends all requests with ErrClosed, waits for the engine's goroutine and frees the program.
func (e *Engine) Close() { e.inbox.close() }

// Fail has the engine end, all its requests with err, as if a step had failed beyond repair: for what is noticed beside steps.
func (e *Engine) Fail(err error) { e.inbox.breakOff(err) }

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

// Stats returns the state after the last step, and of what is kept beyond the device (Stats.Kept) that of now: peers read while no step is made.
func (e *Engine) Stats() Stats {
	e.inbox.mu.Lock()
	s := e.inbox.stats()
	e.inbox.mu.Unlock()
	e.loop.pages.kept.beside(&s, e.loop.pages.main)
	return s
}

// Queue is how long a request that comes now waits until its prompt is begun with, at least, and what a token of a prompt takes, as steps are
// priced.
func (e *Engine) Queue() (wait, token time.Duration) {
	s := e.Stats()
	ttft := e.admission.times.TTFT(e.admission.load(&s))
	return ttft.Wait(0), ttft.Token()
}

// OnStep has f called with every step from now on as it ends. The engine waits for it.
func (e *Engine) OnStep(f func(Step)) { e.history.onStep(f) }

// Steps is the latest steps, at most n, the last of all at the end.
func (e *Engine) Steps(n int) []Step { return e.history.latest(n) }
