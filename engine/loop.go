package engine

import (
	"cmp"
	"context"
	"errors"
	"runtime"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
)

// loop is the engine's goroutine, which owns the device, and what it alone touches.
type loop struct {
	prog  compile.Runner
	ids   int    // that tokens may have
	inbox *inbox // what comes from other goroutines
	finds bool   // tokens are found in any order: see denoise.go

	queue       queue        // which requests wait and run
	isolated    isolation    // requests of a step that failed
	pages       pages        // whose tokens are in which page
	resident    *residency   // adapters
	speculation speculation  // drafts that steps verify
	pool        *samplerPool // of tokens from logits
	hidden      hiddenStates // for requests without an answer
	buffers     buffers      // of the steps in flight
	pipeline    pipeline     // of several stages

	meter    meter // what steps take
	recorder Recorder
	intact   func() error // Options.Intact
}

// init sets up a loop whose goroutine does not run.
func (l *loop) init(prog compile.Runner, o Options, in *inbox, h *history) (err error) {
	if l.pages, err = newPages(prog, o); err != nil {
		return err
	}
	l.prog, l.ids, l.inbox, l.meter, l.recorder, l.intact = prog, prog.Ids(), in, newMeter(o, h), o.Recorder, o.Intact
	l.finds = o.Diffusion != nil
	if l.recorder == nil {
		l.recorder = unrecorded{}
	}
	if l.intact == nil {
		l.intact = func() error { return nil }
	}
	l.pipeline = newPipeline(prog, o)
	settings := o.sched(prog.Limits())
	settings.Steps = l.pipeline.stages
	settings.Whole = prog.Encoder() || o.Diffusion != nil
	asked := func(of func(sched.Shape) float64) func(sched.Shape) float64 { // in µs
		return func(s sched.Shape) float64 {
			seconds := of(s)
			l.recorder.Priced(seconds)
			return seconds * 1e6
		}
	}
	settings.Price, settings.Usual = asked(l.meter.times.Price), asked(l.meter.times.Usual)
	estimate := asked(l.meter.times.Estimate)
	for _, m := range l.pages.ranks {
		m.SetPrice(func(from, to int) float64 { return computing(from, to, settings.MaxBatchedTokens, estimate) })
	}
	if l.pages.hosts != nil {
		settings.SwapPrice = func(r *sched.Request) (recompute, swap float64) {
			return l.pages.swapPrice(l.queue.byID[r.ID], settings.MaxBatchedTokens, settings.Price)
		}
	}
	if l.pages.kept, err = newTier(o, prog, &l.pages, in.signal); err != nil {
		return err
	}
	if l.pages.kept != nil {
		l.pages.kept.wait = waitOf(settings.MaxBatchedTokens, estimate)
	}
	if l.queue, err = newQueue(settings, &l.pages, l.meter.clock); err != nil {
		return err
	}
	l.resident = newResidency(prog, &l.queue, l.recorder, settings.AgingBound, in.signal)
	l.speculation = newSpeculation(o.Speculation, l, settings.MaxBatchedTokens)
	l.hidden = hiddenStates{prog: prog}
	l.pool = newSamplerPool(prog, l.finds)
	l.publish()
	return nil
}

// serve steps while there is work and sleeps while there is none.
func (l *loop) serve() {
	defer close(l.inbox.done)
	defer l.prog.Close()
	defer l.pages.kept.close()
	defer l.pool.close()
	defer l.pool.sampler.drain()
	defer l.speculation.close()
	var current *InFlight
	for {
		if current == nil && len(l.queue.byID) == len(l.resident.blocked)+l.pages.kept.waits() && !l.resident.freed {
			l.pages.kept.remind()
			<-l.inbox.wake
			l.meter.idle()
		}
		more := false
		if current, more = l.iterate(current); !more {
			return
		}
		// Other goroutines run after a long step. Threads of the device that sample do it too: a goroutine that was woken by one
		// of them is in the queue of its processor, from which no other processor takes it while all are busy.
		if l.meter.long {
			runtime.Gosched()
		}
	}
}

// iterate is an iteration of the loop: new requests are queued, the next step is launched, and the one in flight collected. more is false when the engine has ended, with
// all its requests.
func (l *loop) iterate(current *InFlight) (next *InFlight, more bool) {
	if !l.admit() {
		l.endAll(ErrClosed)
		return nil, false
	}
	err := l.inbox.brokenOff()
	if err == nil {
		if l.pipeline.prog != nil {
			next, err = l.stepPipelined(current)
		} else {
			next, err = l.step(current)
		}
	}
	if err == nil {
		err = l.pages.kept.settle()
	}
	if failure := (*stepFailure)(nil); errors.As(err, &failure) {
		err = l.isolate(failure)
	}
	if err != nil {
		l.inbox.fail(err)
		l.admit()
		l.endAll(err)
		return nil, false
	}
	l.publish()
	return next, true
}

// admit queues what was submitted and ends what was given up; false when the engine is to close.
func (l *loop) admit() bool {
	in := l.inbox
	in.joining.Lock()
	defer in.joining.Unlock()
	in.mu.Lock()
	left := append(in.left[:0], in.gone...)
	clear(in.gone)
	in.gone = in.gone[:0]
	for _, r := range in.submitted {
		l.begin(r, NoParent)
		if len(r.Adapters) > 0 {
			l.resident.block(r, in.signal)
		} else if l.pages.kept.fetch(r) {
			continue
		} else if r.err = l.queue.enqueue(r); r.err != nil {
			left = append(left, r)
		}
	}
	clear(in.submitted)
	in.submitted = in.submitted[:0]
	in.published = *l.figures()
	closed := in.closed
	in.mu.Unlock()
	left = append(left, l.resident.unblock(int64(l.meter.sinceStart()))...)
	left = append(left, l.pages.kept.fetched(&l.queue)...)
	for _, r := range left { // not while in.mu is held: the owner is called
		if l.queue.byID[r.sched.ID] == r {
			l.recorder.Left(r.sched.ID)
			l.end(r, "", cmp.Or(r.err, r.ctx.Err()))
		}
	}
	clear(left)
	in.left = left
	return !closed
}

// begin makes a request known.
func (l *loop) begin(r *request, parent int64) {
	l.queue.add(r)
	l.recorder.Admitted(r.sched.ID, parent, l.meter.sinceStart(), &r.Request)
	l.pages.kept.begin(r)
	r.forget = context.AfterFunc(r.ctx, func() { l.inbox.giveUp(r) })
}

// end takes a request out, gives its pages back and calls Done.
func (l *loop) end(r *request, reason sample.Reason, err error) {
	l.queue.remove(r)
	l.pages.kept.leave(r, err == nil)
	l.pages.release(r)
	l.speculation.forget(r)
	l.resident.release(r)
	if r.output > 0 {
		l.meter.stats.ended(r.output)
	}
	r.forget()
	r.finish(Final{Reason: reason, Err: err, End: r.end, Cached: r.cached, Imported: r.imported, Stranded: r.stranded, Output: r.output, Drafted: r.drafted, Accepted: r.accepted, Steps: r.denoising.stepsTaken(), Account: r.ledger.Close(l.meter.now())})
	for _, s := range r.siblings { // the prompt was not computed, and will not be
		s.finish(Final{Err: cmp.Or(err, ErrClosed)})
	}
}

// endAll ends every request with an error.
func (l *loop) endAll(err error) {
	for _, r := range l.queue.byID {
		l.end(r, "", err)
	}
	l.publish()
}

// figures are the stats as they are now.
func (l *loop) figures() *Stats {
	s := &l.meter.stats
	l.queue.count(s)
	l.pages.count(s)
	l.pages.kept.count(s, l.pages.main)
	l.resident.count(s)
	l.speculation.count(s)
	return s
}

// publish shows other goroutines where the engine stands after a step.
func (l *loop) publish() { l.inbox.publish(l.figures(), len(l.queue.byID)) }
