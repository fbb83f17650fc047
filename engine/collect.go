package engine

import (
	"slices"
	"time"
)

// collect waits for the step and hands out its tokens. next, if not nil, has been launched meanwhile.
func (l *loop) collect(f, next *InFlight, began time.Time) error {
	if err := l.pool.sampler.wait(f, l.meter.now); err != nil {
		return err
	}
	if err := l.intact(); err != nil {
		return err
	}
	l.meter.deviceDone(f)
	l.meter.charge(f, began)
	l.pages.kept.computed(f)
	l.takePrompts(f)
	l.branch(f)
	f.outputs = slices.DeleteFunc(f.outputs, output.void)
	l.pool.take(f, l.meter.long)
	for i := range f.outputs {
		l.finishOutput(&f.outputs[i])
	}
	l.speculation.computedBy(f, next)
	l.isolated.wentWell(f)
	l.embed(f)
	l.endPrompts(f)
	took := l.meter.stepDone(f, began)
	l.recorder.Stepped(took)
	return nil
}

// finishOutput notes what a request got from the step, and ends it if that was the end of its answer.
func (l *loop) finishOutput(o *output) {
	r := o.request
	l.meter.stats.Output += int64(o.emitted)
	if !l.finds { // else they are not the last of the request's tokens, and nothing is recorded
		l.recorder.Output(r.sched.ID, o.stepOutput())
	}
	if !o.reconcile() || r.waits {
		l.queue.stale, r.waits = true, false // the schedule knows nothing of the tokens that came
	}
	switch {
	case r.denoising != nil:
		l.settleBlock(r)
	case o.rows > 1:
		l.speculation.settle(o)
	case o.emitted == 0 && o.reason == "" && o.err == nil:
		// Its last token is computed again, and what a step in flight computes after it is taken back.
		l.pages.truncate(r, len(r.tokens)-1)
	}
	r.retarget(l.pool.sampler.runsAhead())
	if o.reason != "" || o.err != nil {
		l.end(r, o.reason, o.err)
	}
}

// embed hands the step's hidden states to the requests for them.
func (l *loop) embed(f *InFlight) {
	for i := range f.requests {
		a := &f.requests[i]
		if a.request.Hidden == nil || a.request.ended {
			continue
		}
		if reason, err := l.hidden.give(a, int(f.batch.QStart[i])); reason != "" || err != nil {
			l.end(a.request, reason, err)
		}
	}
}
