package engine

import "time"

// step moves the requests that the schedule chooses forward. When the device has been given the step after it as well, the next
// call collects that one.
func (e *Engine) step() error {
	began := e.began()
	if e.aloft == 0 {
		if err := e.takeOff(); err != nil {
			return err
		}
	}
	if len(e.chosen) == 0 {
		e.ended = time.Time{}
		e.recorder.Stepped(0)
		return nil
	}
	e.lookAhead()
	if e.foreseen() {
		if err := e.takeOffNext(); err != nil {
			return err
		}
	}
	if err := e.collect(began); err != nil {
		return err
	}
	e.ended = e.now()
	took := e.ended.Sub(began)
	host := e.idle(began, took)
	e.remember(&e.size, e.observe(took), took, host)
	e.recorder.Stepped(took)
	e.stats.record(len(e.batch.Tokens), took, host)
	e.land()
	return nil
}

// began is when the step that is due began: at the end of the one before, where there was one, so that what lies between two
// steps, when others are let onto the processor, counts too. Who waits for tokens waits for it.
func (e *Engine) began() time.Time {
	if e.ended.IsZero() {
		return e.now()
	}
	return e.ended
}

// takeOff gives the device the step that is due, if anybody needs one.
func (e *Engine) takeOff() error {
	e.commitSchedule()
	if err := e.reserve(); err != nil {
		return err
	}
	if len(e.chosen) == 0 {
		return nil
	}
	return e.launch()
}

// commitSchedule brings e.schedule up to date and moves the requests between the queues as it says.
func (e *Engine) commitSchedule() {
	if e.changed && !e.scheduleSuspect() {
		e.scheduleNext()
	}
	e.recorder.Scheduled(&e.schedule)
	e.state.Commit(&e.schedule)
	e.changed = true
}

// scheduleNext schedules a step from where the requests stand.
func (e *Engine) scheduleNext() {
	e.state.Refresh(cache{e})
	e.state.Schedule(&e.schedule, cache{e}, int64(e.since(e.started)))
}

// reserve carries the schedule out on the account of pages. A request for which there turns out to be no page, because
// another of the same schedule found more in the cache than was foreseen, waits for the next step.
func (e *Engine) reserve() error {
	e.chosen, e.copies = e.chosen[:0], e.copies[:0]
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
			found := e.pool.Open(&r.seq, r.Salt, e.shareable(r))
			if r.output == 0 {
				r.cached = found
			}
		} else {
			e.pool.Extend(&r.seq, e.shareable(r))
		}
		r.step = min(c.Tokens, r.sched.Target-r.seq.Len())
		var ok bool
		if e.copies, ok = e.pool.Append(&r.seq, r.step, e.copies); ok {
			e.pool.Publish(&r.seq, e.shareable(r))
			e.chosen = append(e.chosen, r)
		}
		r.sched.Computed = r.seq.Len()
	}
	return nil
}

// copyPages has the device make the copies of pages that are due.
func (e *Engine) copyPages() error {
	for _, c := range e.copies {
		for group := range e.prog.Groups() {
			if err := e.prog.CopyPage(group, c.From, c.To); err != nil {
				return err
			}
		}
	}
	e.copies = e.copies[:0]
	return nil
}

// launch gives the step to the device.
func (e *Engine) launch() error {
	if err := e.copyPages(); err != nil {
		return err
	}
	e.fill()
	if err := e.batch.Check(e.prog.Limits, e.ids); err != nil {
		return err
	}
	e.launched = e.now()
	run := e.prog.Run
	if e.onlyHidden() {
		run = e.prog.RunBody
	}
	if err := run(&e.batch); err != nil || !e.sampler {
		return err
	}
	return e.giveDraws()
}

// lookAhead does, while a device that runs by itself is at work on a step, what does not need its results: it takes in
// what was submitted, finds out which tokens grammars allow, and schedules the next step as if everybody went on. If after
// all somebody does not, or somebody comes, the next step is scheduled again.
func (e *Engine) lookAhead() {
	e.admit()
	for _, r := range e.chosen {
		if r.row < 0 || r.ended || r.Hidden != nil {
			continue
		}
		if !e.sampler || !r.last() {
			r.sched.Target++ // the token being sampled
		}
		if r.Grammar != nil && !e.sampler {
			r.findMask(e.prog.Vocab())
		}
	}
	if len(e.suspects) == 0 {
		e.scheduleNext()
		e.changed = false
	}
}

// collect waits for the step and hands out its tokens.
func (e *Engine) collect(began time.Time) error {
	before, read := e.ready, e.readRows
	if e.sampler {
		read = e.readDrawn
	}
	if err := read(); err != nil {
		return err
	}
	if e.launched.Before(before) { // the device was still at the step before
		e.launched = before
	}
	e.ready = e.now()
	e.explain(began)
	e.branch()
	e.crew.do(e.draws, e.long())
	for i := range e.draws {
		d := &e.draws[i]
		e.stats.Output += int64(d.emitted)
		e.recorder.Output(d.request.sched.ID, d.output())
		e.changed = e.changed || d.emitted > 1 // tokens that the schedule knows nothing of
		if d.reason != "" || d.err != nil {
			e.end(d.request, d.reason, d.err)
		}
	}
	e.wentWell()
	e.embed()
	return nil
}
