package engine

import "runtime/debug"

// launch schedules a step and gives it to the device, which may still be at current. If no request needs a step, it has none.
func (e *Engine) launch(current *InFlight) (f *InFlight, err error) {
	f = e.buffers.other(current)
	defer catch(&err)
	e.commitSchedule()
	e.propose(current)
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
	e.speculation.hiddenGone()
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
// another of the same schedule found more in the cache than was assumed, waits for the next step.
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
			found := e.pages.Open(&r.seq, r.salt, r.shareable())
			if r.output == 0 {
				r.cached = found
			}
		} else {
			e.pages.Snapshot(&r.seq)
			e.pages.Extend(&r.seq, r.shareable())
		}
		from := r.seq.Len()
		n := min(c.Tokens, r.sched.Target-from)
		if from+n < r.known() {
			r.draft.Cut(0)
		}
		if e.takeDraft(r, n) {
			f.requests = append(f.requests, advance{request: r, from: from, tokens: n, drafted: len(r.draft.Tokens)})
			e.noteDraft(f, r)
		}
		r.sched.Computed = r.seq.Len() - len(r.draft.Tokens)
	}
	return nil
}
