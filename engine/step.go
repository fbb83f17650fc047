package engine

import (
	"runtime/debug"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/engine/account"
)

// Steps overlap where the device samples tokens itself (backend.Sampler): while it computes step n, the engine schedules step n+1 as if
// every request went on by one token, and launches it with placeholders for the tokens that step n is still to sample. Only then does
// it collect the tokens of step n. So scheduling, handing out and detokenising cost no time as long as they take less than a step.
//
//	next := e.launch(current)  // scheduled, reserved, in the device's queue
//	e.collect(current)         // waits for its tokens and hands them out
//	current = next
//
// A request that ends at step n wastes its row of step n+1; since the device does one step after the other, pages given back early
// are safe. Where step n brings a request more tokens than the one that was assumed, the token that step n+1 samples for it is known
// already and dropped.
//
// A request with a grammar runs ahead too, beside others: its row of step n+1 is computed from the placeholder, and only then, while the
// device computes, does the host take in the token of step n and find out which may follow. So the sampling of such a step is deferred
// until step n is collected; its launch is not. Nothing is launched ahead that consists of such rows alone: for tokens that a grammar
// forces, which come without sampling, it would take a step more.

// step collects the tokens of the step in flight, launching it first if there is none, and gives the device the next one before that
// where it can run ahead. It returns the step that is in flight then. An error is a *stepFailure.
func (e *Engine) step(current *InFlight) (next *InFlight, err error) {
	at := current // the step that fails, if one does
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
		if err != nil {
			next, err = nil, &stepFailure{at, err}
		}
	}()
	began := e.meter.began()
	if current == nil {
		if current, err = e.launch(nil); err != nil {
			at = current
			return nil, err
		}
		at = current
	}
	if len(current.requests) == 0 {
		e.meter.idle()
		e.recorder.Stepped(0)
		return nil, nil
	}
	e.anticipate(current)
	if e.canRunAhead(current) {
		if next, err = e.launch(current); err != nil {
			at = next
			return nil, err
		}
	}
	if err := e.collect(current, began); err != nil {
		return nil, err
	}
	if next != nil && next.deferred {
		at = next
		return next, e.sampler.sample(next)
	}
	return next, nil
}

// launch schedules a step and gives it to the device, which may still be at current. If no request needs a step, it has none.
func (e *Engine) launch(current *InFlight) (f *InFlight, err error) {
	f = e.buffers.other(current)
	defer catch(&err)
	e.commitSchedule()
	if err := e.reserve(f); err != nil || len(f.requests) == 0 {
		return f, err
	}
	if err := e.pages.copyPages(); err != nil {
		return f, err
	}
	e.fill(f, current)
	if err := f.batch.Check(e.prog.Limits(), e.ids); err != nil {
		return f, err
	}
	f.launched = e.meter.now()
	run := e.prog.Run
	if f.onlyHidden() {
		run = e.prog.RunBody
	}
	if err := run(&f.batch); err != nil {
		return f, err
	}
	f.expect(e.prog.Limits().Logits)
	if f.deferred = current != nil && f.waitsForHost(); f.deferred {
		return f, nil
	}
	return f, e.sampler.sample(f)
}

// catch makes an error of a panic.
func catch(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{p, debug.Stack()}
	}
}

// commitSchedule brings the schedule up to date and moves the requests between the queues as it says.
func (e *Engine) commitSchedule() {
	q := &e.queue
	if q.stale && !e.scheduleIsolated() {
		e.scheduleNext()
	}
	e.recorder.Scheduled(&q.schedule)
	q.state.Commit(&q.schedule)
	q.stale = true
}

// scheduleNext schedules a step from where the requests stand. Pages that have fallen out of their windows are available to it: what it
// writes there is written after the step in flight has read them.
func (e *Engine) scheduleNext() {
	q := &e.queue
	if e.pages.Windowed() {
		for _, r := range q.state.Running() {
			e.pages.Trim(&q.byID[r.ID].seq)
		}
	}
	q.state.Refresh(q.cache)
	q.state.Schedule(&q.schedule, q.cache, int64(e.meter.sinceStart()))
}

// reserve carries the schedule out on the account of pages. A request for which there turns out to be no page, because
// another of the same schedule found more in the cache than was foreseen, waits for the next step.
func (e *Engine) reserve(f *InFlight) error {
	e.pages.copies = e.pages.copies[:0]
	if err := e.preempt(); err != nil {
		return err
	}
	for _, c := range e.queue.schedule.Chunks {
		r := e.queue.byID[c.Request.ID]
		if r.away {
			if err := e.pages.swapIn(r); err != nil {
				return err
			}
		}
		if c.Admit && r.seq.Len() == 0 {
			found := e.pages.Open(&r.seq, r.Salt, r.shareable())
			if r.output == 0 {
				r.cached = found
			}
		} else {
			e.pages.Extend(&r.seq, r.shareable())
		}
		from := r.seq.Len()
		n := min(c.Tokens, r.sched.Target-from)
		if e.pages.take(r, n) {
			f.requests = append(f.requests, advance{request: r, from: from, tokens: n})
		}
		r.sched.Computed = r.seq.Len()
	}
	return nil
}

// anticipate does, while the device is at work on a step, what does not need its results: it takes in what was submitted, and
// schedules the next step as if every request went on by one token. If after all one does not, or one comes, the next step is
// scheduled again. Siblings join with the pages that their request has now, so it takes no part in a step before they have.
func (e *Engine) anticipate(f *InFlight) {
	e.admit()
	for i := range f.outputs {
		o := &f.outputs[i]
		r := o.request
		if o.parent != nil || r.ended || len(r.siblings) > 0 {
			continue
		}
		e.retarget(r)
	}
	if len(e.isolated.requests) == 0 {
		e.scheduleNext()
		e.queue.stale = false
	}
}

// retarget has the scheduler take a request to its last known token. Of an answer's last token nothing is computed.
func (e *Engine) retarget(r *request) {
	r.sched.Target = r.known()
	if e.sampler.runsAhead() {
		r.sched.Target = min(r.sched.Target, r.sched.Limit-1)
	}
}

// canRunAhead reports whether the step that is scheduled can be launched before the one in flight is collected. It cannot when
// a request is to give back pages, when hidden states must be read before they are overwritten, and while requests are retried alone.
// It gains nothing when all that it computes are answers whose tokens the host has to see before it can tell what may follow.
func (e *Engine) canRunAhead(current *InFlight) bool {
	if !e.sampler.runsAhead() || len(e.isolated.requests) > 0 || len(e.queue.schedule.Preempt) > 0 || e.readsHidden(current) {
		return false
	}
	for _, c := range e.queue.schedule.Chunks {
		if r := e.queue.byID[c.Request.ID]; r.pending == 0 || !r.constrained() {
			return true
		}
	}
	return false
}

// constrained reports whether a grammar says which token may come next: it has to accept the token before.
func (r *request) constrained() bool { return r.Grammar != nil || r.Constrained }

// waitsForHost reports whether one of the step's outputs depends on a token in flight in a way that the device cannot know.
func (f *InFlight) waitsForHost() bool {
	for i := range f.outputs {
		if o := &f.outputs[i]; o.request.constrained() && o.position > len(o.request.tokens) {
			return true
		}
	}
	return false
}

// collect waits for the step and hands out its tokens.
func (e *Engine) collect(f *InFlight, began time.Time) error {
	if err := e.sampler.wait(f, e.meter.now); err != nil {
		return err
	}
	e.meter.deviceDone(f)
	e.charge(f, began)
	e.branch(f)
	f.outputs = slices.DeleteFunc(f.outputs, output.void)
	e.pool.take(f, e.meter.long)
	for i := range f.outputs {
		e.settleOutput(&f.outputs[i])
	}
	e.isolated.wentWell(f)
	e.embed(f)
	took := e.meter.stepDone(f, began, e.times)
	e.recorder.Stepped(took)
	return nil
}

// settleOutput notes what a request got from the step, and ends it if that was the end of its answer.
func (e *Engine) settleOutput(o *output) {
	r := o.request
	e.meter.stats.Output += int64(o.emitted)
	e.recorder.Output(r.sched.ID, o.stepOutput())
	if !o.settle() {
		e.queue.stale = true // the schedule knows nothing of the tokens that came
	}
	if o.emitted == 0 && o.reason == "" && o.err == nil {
		// Its last token is computed again, and what a step in flight computes after it is taken back.
		e.pages.truncate(r, len(r.tokens)-1)
	}
	e.retarget(r)
	if o.reason != "" || o.err != nil {
		e.end(r, o.reason, o.err)
	}
}

// charge divides the time since the previous step among the step's requests.
func (e *Engine) charge(f *InFlight, began time.Time) {
	f.batch.Step(&f.size)
	e.divider.Begin(account.Step{Number: e.meter.stats.Steps + 1, Size: &f.size, Began: began, Launched: f.launched, Ready: f.ready})
	for i := range f.requests {
		if r := f.requests[i].request; !r.ended {
			e.divider.Charge(&r.ledger, i, r.output > 0)
		}
	}
}
