package engine

import (
	"slices"
	"time"

	"github.com/ridge-llm/ridge/engine/account"
)

// collect waits for the step and hands out its tokens. next, if not nil, has been launched meanwhile.
func (e *Engine) collect(f, next *InFlight, began time.Time) error {
	if err := e.sampler.wait(f, e.meter.now); err != nil {
		return err
	}
	if err := e.intact(); err != nil {
		return err
	}
	e.meter.deviceDone(f)
	e.charge(f, began)
	e.branch(f)
	f.outputs = slices.DeleteFunc(f.outputs, output.void)
	e.pool.take(f, e.meter.long)
	for i := range f.outputs {
		e.finishOutput(&f.outputs[i])
	}
	e.hiddenForDrafts(f, next)
	e.isolated.wentWell(f)
	e.embed(f)
	took := e.meter.stepDone(f, began, e.times)
	e.recorder.Stepped(took)
	return nil
}

// finishOutput notes what a request got from the step, and ends it if that was the end of its answer.
func (e *Engine) finishOutput(o *output) {
	r := o.request
	e.meter.stats.Output += int64(o.emitted)
	e.recorder.Output(r.sched.ID, o.stepOutput())
	if !o.reconcile() {
		e.queue.stale = true // the schedule knows nothing of the tokens that came
	}
	switch {
	case o.rows > 1:
		e.settleDraft(o)
	case o.emitted == 0 && o.reason == "" && o.err == nil:
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
