package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/sched"
)

// A step fails when the device reports an error or a kernel panics. What the step was to write in the cache is then worth
// nothing, and one of its requests may be the cause. So everything running starts over, the requests of the failed step
// first and each isolated, in steps of its own: the one with which a step fails again ends with the error, and the others lose some
// time. When step after step fails, it is not a request that is broken; nor is it when the device is lost.

// maxFailures is how many steps may fail, with none between that went well, before the engine gives up.
const maxFailures = 3

// StepError ends the request that made a step fail.
type StepError struct{ Err error }

func (e *StepError) Error() string {
	return fmt.Sprintf("engine: computing a step with this request failed: %v", e.Err)
}

// Unwrap is the cause.
func (e *StepError) Unwrap() error { return e.Err }

// stepFailure is the error of a step.
type stepFailure struct {
	step *InFlight // that failed; nil if none had been launched
	err  error
}

func (f *stepFailure) Error() string { return f.err.Error() }

// Unwrap is the cause.
func (f *stepFailure) Unwrap() error { return f.err }

// isolate has the requests of a failed step retried, each alone, and all others start over. It returns an error when the engine
// cannot go on.
func (e *Engine) isolate(failure *stepFailure) error {
	err := failure.err
	e.ended = time.Time{}
	if errors.Is(err, backend.ErrLost) {
		return fmt.Errorf("engine: the engine has stopped: %w", err)
	}
	if e.failures++; e.failures == maxFailures {
		return fmt.Errorf("engine: %d steps failed one after another and the engine has stopped: %w", maxFailures, err)
	}
	if len(e.isolated) > 0 {
		if !e.isolated[0].ended {
			e.end(e.isolated[0], "", &StepError{err})
		}
	} else if failure.step != nil {
		for i := range failure.step.requests {
			e.isolated = append(e.isolated, failure.step.requests[i].request)
		}
	}
	e.sampler.drain()
	e.startOver()
	return nil
}

// startOver has all running requests wait again with nothing computed, and forgets what is cached: the failed step may
// have been about to write it.
func (e *Engine) startOver() {
	var schedule sched.Schedule
	e.forgetSwapped()
	for _, q := range e.state.Running() {
		r := e.byID[q.ID]
		e.release(r)
		r.pending = 0
		q.Target = len(r.tokens)
		schedule.Preempt = append(schedule.Preempt, sched.Preemption{Request: q})
	}
	e.state.Commit(&schedule)
	e.pages.Flush()
	e.changed = true
}

// scheduleIsolated schedules a step of the first isolated request, which gets all the pages. It reports whether there is one.
func (e *Engine) scheduleIsolated() bool {
	e.isolated = slices.DeleteFunc(e.isolated, func(r *request) bool { return r.ended })
	if len(e.isolated) == 0 {
		return false
	}
	q := &e.isolated[0].sched
	running := slices.Contains(e.state.Running(), q)
	e.schedule.Preempt, e.schedule.Chunks = e.schedule.Preempt[:0], e.schedule.Chunks[:0]
	if !running {
		for _, other := range e.state.Running() {
			e.schedule.Preempt = append(e.schedule.Preempt, sched.Preemption{Request: other})
		}
	}
	n := min(q.Target-q.Computed, e.prog.Limits().Tokens)
	e.schedule.Chunks = append(e.schedule.Chunks, sched.Chunk{Request: q, Tokens: n, Admit: !running})
	return true
}

// wentWell notes that a step did. An isolated request that has reached its target by it is isolated no more.
func (e *Engine) wentWell(f *InFlight) {
	e.failures = 0
	if first := &f.requests[0]; len(e.isolated) > 0 && first.request == e.isolated[0] && first.rows > 0 {
		e.isolated = e.isolated[1:]
	}
}
