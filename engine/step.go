package engine

import "runtime/debug"

// step collects the tokens of the step in flight, launching it first if there is none, and gives the device the next one before that
// where it can run ahead. It returns the step that is in flight then. An error is a *stepFailure.
func (l *loop) step(current *InFlight) (next *InFlight, err error) {
	at := current // the step that fails, if one does
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
		if err != nil {
			next, err = nil, &stepFailure{at, err}
		}
	}()
	began := l.meter.began()
	if current == nil {
		if current, err = l.launch(nil); err != nil {
			at = current
			return nil, err
		}
		at = current
	}
	if len(current.requests) == 0 {
		l.meter.idle()
		l.recorder.Stepped(0)
		return nil, nil
	}
	l.anticipate(current)
	if l.canRunAhead(current) {
		if next, err = l.launch(current); err != nil {
			at = next
			return nil, err
		}
	}
	if err := l.collect(current, next, began); err != nil {
		return nil, err
	}
	if next != nil && next.deferred {
		at = next
		return next, l.pool.sampler.sample(next)
	}
	return next, nil
}
