package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
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

// isolation is the requests of a step that failed.
type isolation struct {
	requests []*request // each is retried alone
	failures int        // steps that failed since one went well
}

// wentWell notes that a step did. An isolated request that has reached its target by it is isolated no more.
func (x *isolation) wentWell(f *InFlight) {
	x.failures = 0
	if first := &f.requests[0]; len(x.requests) > 0 && first.request == x.requests[0] && first.rows > 0 {
		x.requests = x.requests[1:]
	}
}

// next is the first of them; nil: there is none.
func (x *isolation) next() *request {
	x.requests = slices.DeleteFunc(x.requests, func(r *request) bool { return r.ended })
	if len(x.requests) == 0 {
		return nil
	}
	return x.requests[0]
}

// isolate has the requests of a failed step retried, each alone, and all others start over. It returns an error when the engine
// cannot go on.
func (l *loop) isolate(failure *stepFailure) error {
	err, x := failure.err, &l.isolated
	l.meter.idle()
	if changed := l.intact(); changed != nil {
		return changed
	}
	if errors.Is(err, backend.ErrLost) {
		return fmt.Errorf("engine: the engine has stopped: %w", err)
	}
	if x.failures++; x.failures == maxFailures {
		return fmt.Errorf("engine: %d steps failed one after another and the engine has stopped: %w", maxFailures, err)
	}
	if len(x.requests) > 0 {
		if !x.requests[0].ended {
			l.end(x.requests[0], "", &StepError{err})
		}
	} else if failure.step != nil {
		for i := range failure.step.requests {
			x.requests = append(x.requests, failure.step.requests[i].request)
		}
	}
	err = l.pipeline.abandon()
	l.pool.sampler.drain() // of what they have sampled too
	if err != nil {
		return fmt.Errorf("engine: the engine has stopped: %w", err)
	}
	l.queue.startOver()
	return nil
}
