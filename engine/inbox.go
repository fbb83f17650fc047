package engine

import (
	"context"
	"sync"
)

// inbox is what other goroutines share with the engine's: requests that come and whose callers go, where the engine stands, and
// whether it is to stop.
type inbox struct {
	joining sync.Mutex // held while requests join the queue; before mu

	mu        sync.Mutex
	submitted []*request
	gone      []*request // their callers have gone
	published Stats      // after the last step
	draining  bool
	closed    bool
	failed    error
	broken    error // of Engine.Fail: why the engine is to end

	left []*request // of admit, used again: gone, or refused by the scheduler

	wake    chan struct{} // capacity 1: something came, or the engine is to close or drain
	drained chan struct{} // closed when draining and empty
	done    chan struct{} // closed when the engine's goroutine has ended
}

func newInbox() inbox {
	return inbox{wake: make(chan struct{}, 1), drained: make(chan struct{}), done: make(chan struct{})}
}

// signal wakes the engine. It does not need mu.
func (in *inbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// giveUp tells the engine that a request's caller has gone.
func (in *inbox) giveUp(r *request) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.gone = append(in.gone, r)
	in.signal()
}

// close has the engine end.
func (in *inbox) close() {
	in.mu.Lock()
	in.closed = true
	in.signal()
	in.mu.Unlock()
	<-in.done
}

// breakOff has the engine end with an error.
func (in *inbox) breakOff(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.broken == nil {
		in.broken = err
	}
	in.signal()
}

// brokenOff is why the engine is to end; nil: it is not.
func (in *inbox) brokenOff() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.broken
}

// fail notes why the engine cannot go on.
func (in *inbox) fail(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.failed = err
}

// drain has the engine take no more requests, and waits until all have ended.
func (in *inbox) drain(ctx context.Context) error {
	in.mu.Lock()
	in.draining = true
	in.signal()
	in.mu.Unlock()
	select {
	case <-in.drained:
	case <-in.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// err is why the engine takes no requests now. in.mu is held.
func (in *inbox) err() error {
	switch {
	case in.failed != nil:
		return in.failed
	case in.closed:
		return ErrClosed
	case in.draining:
		return ErrDraining
	}
	return nil
}

// publish notes where the engine stands: with so many requests.
func (in *inbox) publish(s *Stats, requests int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.published = *s
	if !in.draining || requests > 0 || len(in.submitted) > 0 {
		return
	}
	select {
	case <-in.drained:
	default:
		close(in.drained)
	}
}

// stats is the state after the last step, with those that have come since. in.mu is held.
func (in *inbox) stats() Stats {
	s := in.published
	s.Waiting += len(in.submitted)
	for _, r := range in.submitted {
		s.Backlog += len(r.Prompt)
	}
	return s
}
