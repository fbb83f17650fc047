package background

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// FullError refuses work: so much of its owner's waits as may.
type FullError struct{ Waiting int }

func (e *FullError) Error() string {
	return fmt.Sprintf("background: %d pieces of work of one owner wait, the most there may be", e.Waiting)
}

// Queue lets some pieces of work go on at a time: a semaphore whose slots go to owners in round robin, however much work each has.
// Work that takes long gives its slot up now and then (Yield) and waits for another. It is made by NewQueue; goroutines may use it at the same time.
type Queue struct {
	mu      sync.Mutex
	most    int // that may wait of one owner; 0: any number
	free    int
	waiting []*waiter
	had     map[string]int // by owner: the number of the slot it had last
	number  int
}

// waiter is one piece of work that waits.
type waiter struct {
	owner string
	begin chan struct{} // closed when it may go on
}

// NewQueue makes a queue with n slots, in which at most so many of each owner may wait; 0: any number.
func NewQueue(n, most int) *Queue { return &Queue{free: n, most: most, had: map[string]int{}} }

// Acquire waits for a slot. The error is ctx's cause, or a *FullError.
func (s *Queue) Acquire(ctx context.Context, owner string) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.take(owner)
		s.mu.Unlock()
		return nil
	}
	if n := s.waits(owner); s.most > 0 && n >= s.most {
		s.mu.Unlock()
		return &FullError{n}
	}
	t := s.queue(owner)
	s.mu.Unlock()
	return s.wait(ctx, t)
}

// waits is how much of an owner's work waits. s.mu is held.
func (s *Queue) waits(owner string) (n int) {
	for _, t := range s.waiting {
		if t.owner == owner {
			n++
		}
	}
	return n
}

// queue has work wait. s.mu is held.
func (s *Queue) queue(owner string) *waiter {
	t := &waiter{owner, make(chan struct{})}
	s.waiting = append(s.waiting, t)
	return t
}

// wait returns when work that waits has a turn, or with ctx's cause.
func (s *Queue) wait(ctx context.Context, t *waiter) error {
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
	return context.Cause(ctx)
}

// take notes that an owner has a slot. s.mu is held.
func (s *Queue) take(owner string) {
	if len(s.had) > 1000 { // owners that are long gone
		clear(s.had)
	}
	s.number++
	s.had[owner] = s.number
}

// next gives a slot that was given back to the owner whose last slot is longest ago; without a waiter it is free. s.mu is held.
func (s *Queue) next() {
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

// Release gives a slot back.
func (s *Queue) Release() {
	s.mu.Lock()
	s.next()
	s.mu.Unlock()
}

// Yield gives a slot back and waits for another, if others wait. held is false when it is gone, which an error says why.
func (s *Queue) Yield(ctx context.Context, owner string) (held bool, err error) {
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
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
