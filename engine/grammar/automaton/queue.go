package automaton

import (
	std "context" // the package has a type of that name
	"fmt"
	"slices"
	"sync"
)

// BusyError refuses to compile: an owner has too many grammars waiting.
type BusyError struct{ Waiting int }

func (e *BusyError) Error() string {
	return fmt.Sprintf("grammar: %d grammars wait to be compiled, the most there may be; try again", e.Waiting)
}

// maxWaiting is how many grammars of one owner may wait to be compiled.
const maxWaiting = 64

// fairQueue lets some compilations work at a time: a semaphore whose slots go to owners in round robin, however much each wants compiled.
// Compilations that take long give their slot up now and then (yield) and wait for another.
type fairQueue struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter
	had     map[string]int // by owner: the number of the slot it had last
	number  int
}

// waiter is one compilation that waits.
type waiter struct {
	owner string
	begin chan struct{} // closed when it may work
}

func newFairQueue(n int) *fairQueue { return &fairQueue{free: n, had: map[string]int{}} }

// acquire waits for a slot.
func (s *fairQueue) acquire(ctx std.Context, owner string) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.take(owner)
		s.mu.Unlock()
		return nil
	}
	n := 0
	for _, t := range s.waiting {
		if t.owner == owner {
			n++
		}
	}
	if n >= maxWaiting {
		s.mu.Unlock()
		return &BusyError{n}
	}
	t := s.queue(owner)
	s.mu.Unlock()
	return s.wait(ctx, t)
}

// queue has a compilation wait. s.mu is held.
func (s *fairQueue) queue(owner string) *waiter {
	t := &waiter{owner, make(chan struct{})}
	s.waiting = append(s.waiting, t)
	return t
}

// wait returns when a compilation that waits has a turn, or with ctx's error.
func (s *fairQueue) wait(ctx std.Context, t *waiter) error {
	select {
	case <-t.begin:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, t); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.next() // it had been given the slot meanwhile
	}
	return ctx.Err()
}

// take notes that an owner has a slot. s.mu is held.
func (s *fairQueue) take(owner string) {
	if len(s.had) > 1000 { // owners that are long gone
		clear(s.had)
	}
	s.number++
	s.had[owner] = s.number
}

// next gives a slot that was given back to the owner whose last slot is longest ago; without a waiter it is free. s.mu is held.
func (s *fairQueue) next() {
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	best := 0
	for i, t := range s.waiting {
		if s.had[t.owner] < s.had[s.waiting[best].owner] {
			best = i
		}
	}
	t := s.waiting[best]
	s.waiting = slices.Delete(s.waiting, best, best+1)
	s.take(t.owner)
	close(t.begin)
}

// release gives a slot back.
func (s *fairQueue) release() {
	s.mu.Lock()
	s.next()
	s.mu.Unlock()
}

// yield gives a slot back and waits for another, if others wait. held is false when it is gone, which an error says why.
func (s *fairQueue) yield(ctx std.Context, owner string) (held bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	s.mu.Lock()
	if len(s.waiting) == 0 {
		s.mu.Unlock()
		return true, nil
	}
	t := s.queue(owner)
	s.next()
	s.mu.Unlock()
	err = s.wait(ctx, t)
	return err == nil, err
}
