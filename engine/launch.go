package engine

import "runtime/debug"

// launch schedules a step and gives it to the device, which may still be at current. If no request needs a step, it has none.
func (l *loop) launch(current *InFlight) (f *InFlight, err error) {
	f = l.buffers.other(current, l.pipeline.behind)
	defer catch(&err)
	q, alone := &l.queue, l.isolated.next()
	if q.stale && alone != nil {
		q.alone(&alone.sched, l.prog.Limits().Tokens)
	} else if q.stale {
		q.scheduleNext()
	}
	l.recorder.Scheduled(&q.schedule)
	q.commit()
	if alone == nil {
		l.speculation.propose(current != nil)
	}
	if err := l.reserve(f); err != nil || len(f.requests) == 0 {
		return f, err
	}
	if err := l.pages.copyPages(); err != nil {
		return f, err
	}
	f.sortByAdapter()
	f.fill(&l.pages, current)
	if err := f.batch.Check(l.prog.Limits(), l.ids); err != nil {
		return f, err
	}
	l.speculation.hiddenGone()
	f.launched = l.meter.now()
	if current == nil {
		f.drafting = l.speculation.took
		l.meter.waited(f.launched, f.drafting)
	}
	if err := l.run(f); err != nil {
		return f, err
	}
	f.expect(l.prog.Limits().Logits - len(f.prompts))
	if f.deferred = current != nil && f.waitsForHost(); f.deferred {
		return f, nil
	}
	return f, l.pool.sampler.sample(f)
}

// run gives the device a step.
func (l *loop) run(f *InFlight) error {
	switch {
	case l.pipeline.prog != nil:
		return l.pipeline.run(f)
	case f.onlyHidden():
		return l.prog.RunBody(&f.batch)
	}
	return l.prog.Run(&f.batch)
}

// catch makes an error of a panic.
func catch(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{p, debug.Stack()}
	}
}

// reserve carries the schedule out on the account of pages. A request for which there turns out to be no page, because
// another of the same schedule found more in the cache than was assumed, waits for the next step.
func (l *loop) reserve(f *InFlight) error {
	l.pages.copies = l.pages.copies[:0]
	spare, logits := l.sparePromptRows(), l.prog.Limits().Logits
	if err := l.pages.preempt(&l.queue); err != nil {
		return err
	}
	l.speculation.preempted(&l.queue)
	for _, c := range l.queue.schedule.Chunks {
		r := l.queue.byID[c.Request.ID]
		if r.away {
			if err := l.pages.swapIn(r); err != nil {
				return err
			}
			l.speculation.resumed(r)
		}
		if c.Admit && r.seq.Len() == 0 {
			found := l.pages.of(r).Open(&r.seq, r.salt, r.shareable())
			if l.pages.kept != nil && len(r.keys) > 0 {
				more, err := l.pages.kept.bring(r)
				if err != nil {
					return err
				}
				found += more
			}
			if r.output == 0 {
				r.cached, r.stranded = found, l.pages.of(r).Stranded(&r.seq)
			}
		} else {
			l.pages.of(r).Snapshot(&r.seq, r.shareable())
			l.pages.of(r).Extend(&r.seq, r.shareable())
		}
		from := r.seq.Len()
		n := min(c.Tokens, r.sched.Target-from)
		if parts := l.pages.of(r).Parts(&r.seq); parts > from && parts < from+n {
			n = parts - from // the state there serves all that begin alike
		}
		n = r.fitPromptRows(from, n, &spare)
		if from+n < r.known() {
			r.draft.Cut(0)
		}
		if !r.fitBlockRows(from, &logits) {
			r.sched.Computed = from
			continue
		}
		if l.speculation.take(r, n) {
			f.requests = append(f.requests, advance{request: r, from: from, tokens: n, drafted: len(r.draft.Tokens)})
			l.speculation.note(f, r)
		}
		r.sched.Computed = r.seq.Len() - len(r.draft.Tokens)
	}
	return nil
}
