package engine

import (
	"runtime/debug"
	"slices"
	"time"
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
	began := e.began()
	if current == nil {
		if current, err = e.launch(nil); err != nil {
			at = current
			return nil, err
		}
		at = current
	}
	if len(current.requests) == 0 {
		e.ended = time.Time{}
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

// began is when the step that is due began: at the end of the previous one, where there was one, so that what lies between two
// steps, when other goroutines run, counts too. A request that waits for tokens waits for it.
func (e *Engine) began() time.Time {
	if e.ended.IsZero() {
		return e.now()
	}
	return e.ended
}

// launch schedules a step and gives it to the device, which may still be at current. If no request needs a step, it has none.
func (e *Engine) launch(current *InFlight) (f *InFlight, err error) {
	f = e.buffers.other(current)
	defer catch(&err)
	e.commitSchedule()
	if err := e.reserve(f); err != nil || len(f.requests) == 0 {
		return f, err
	}
	if err := e.copyPages(); err != nil {
		return f, err
	}
	e.fill(f, current)
	if err := f.batch.Check(e.prog.Limits(), e.ids); err != nil {
		return f, err
	}
	f.launched = e.now()
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

// commitSchedule brings e.schedule up to date and moves the requests between the queues as it says.
func (e *Engine) commitSchedule() {
	if e.changed && !e.scheduleIsolated() {
		e.scheduleNext()
	}
	e.recorder.Scheduled(&e.schedule)
	e.state.Commit(&e.schedule)
	e.changed = true
}

// scheduleNext schedules a step from where the requests stand. Pages that have fallen out of their windows are available to it: what it
// writes there is written after the step in flight has read them.
func (e *Engine) scheduleNext() {
	for _, q := range e.state.Running() {
		e.pages.Trim(&e.byID[q.ID].seq)
	}
	e.state.Refresh(cache{e})
	e.state.Schedule(&e.schedule, cache{e}, int64(e.since(e.started)))
}

// reserve carries the schedule out on the account of pages. A request for which there turns out to be no page, because
// another of the same schedule found more in the cache than was foreseen, waits for the next step.
func (e *Engine) reserve(f *InFlight) error {
	e.copies = e.copies[:0]
	if err := e.preempt(); err != nil {
		return err
	}
	for _, c := range e.schedule.Chunks {
		r := e.byID[c.Request.ID]
		if r.away {
			if err := e.swapIn(r); err != nil {
				return err
			}
		}
		if c.Admit && r.seq.Len() == 0 {
			found := e.pages.Open(&r.seq, r.Salt, e.shareable(r))
			if r.output == 0 {
				r.cached = found
			}
		} else {
			e.pages.Extend(&r.seq, e.shareable(r))
		}
		from := r.seq.Len()
		n := min(c.Tokens, r.sched.Target-from)
		var ok bool
		if e.copies, ok = e.pages.Append(&r.seq, n, e.copies); ok {
			e.pages.Publish(&r.seq, e.shareable(r))
			f.requests = append(f.requests, advance{request: r, from: from, tokens: n})
		}
		r.sched.Computed = r.seq.Len()
	}
	return nil
}

// copyPages has the device make the copies of pages that are due.
func (e *Engine) copyPages() error {
	for _, c := range e.copies {
		if err := e.prog.CopyPage(c.Group, c.From, c.To); err != nil {
			return err
		}
	}
	e.copies = e.copies[:0]
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
	if len(e.isolated) == 0 {
		e.scheduleNext()
		e.changed = false
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
	if !e.sampler.runsAhead() || len(e.isolated) > 0 || len(e.schedule.Preempt) > 0 || e.readsHidden(current) {
		return false
	}
	for _, c := range e.schedule.Chunks {
		if r := e.byID[c.Request.ID]; r.pending == 0 || !r.constrained() {
			return true
		}
	}
	return false
}

// constrained reports whether a grammar says which token may come next: it must have taken in the token before.
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
	before := e.ready
	if err := e.sampler.wait(f, e.now); err != nil {
		return err
	}
	if f.launched.Before(before) { // the device was still at the previous step
		f.launched = before
	}
	f.ready = e.now()
	e.ready, e.long = f.ready, f.ready.Sub(f.launched) > longStep
	e.explain(f, began)
	e.branch(f)
	f.outputs = slices.DeleteFunc(f.outputs, output.void)
	e.pools.take(f, e.long)
	for i := range f.outputs {
		e.settleOutput(&f.outputs[i])
	}
	e.wentWell(f)
	e.embed(f)
	e.account(f, began)
	return nil
}

// settleOutput notes what a request got from the step, and ends it if that was the end of its answer.
func (e *Engine) settleOutput(o *output) {
	r := o.request
	e.stats.Output += int64(o.emitted)
	e.recorder.Output(r.sched.ID, o.stepOutput())
	if !o.settle() {
		e.changed = true // the schedule knows nothing of the tokens that came
	}
	if o.emitted == 0 && o.reason == "" && o.err == nil {
		e.computeAgain(r)
	}
	e.retarget(r)
	if o.reason != "" || o.err != nil {
		e.end(r, o.reason, o.err)
	}
}

// computeAgain takes back the last token of a request that got none from it, and what a step in flight computes after it.
func (e *Engine) computeAgain(r *request) {
	if !e.pages.Truncate(&r.seq, len(r.tokens)-1) {
		e.pages.Free(&r.seq) // pages before a window are gone
	}
	r.sched.Computed = r.seq.Len()
}

// account notes what the step took.
func (e *Engine) account(f *InFlight, began time.Time) {
	e.ended = e.now()
	took := e.ended.Sub(began)
	idle := max(took-f.worked, 0)
	e.remember(&f.size, e.observe(&f.size, took), took, idle)
	e.recorder.Stepped(took)
	e.stats.record(len(f.batch.Tokens), took, idle)
}
