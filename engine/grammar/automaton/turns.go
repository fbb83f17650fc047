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

// turns lets some compilations work at a time. Those that take long give way to others now and then (yield), and owners have their turns one
// after the other, however much each wants compiled.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []*turn
	had     map[string]int // by owner: the number of the turn it had last
	number  int
}

// turn is one compilation that waits.
type turn struct {
	owner string
	begin chan struct{} // closed when it may work
}

func newTurns(n int) *turns { return &turns{free: n, had: map[string]int{}} }

// acquire waits for a turn.
func (s *turns) acquire(ctx std.Context, owner string) error {
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
func (s *turns) queue(owner string) *turn {
	t := &turn{owner, make(chan struct{})}
	s.waiting = append(s.waiting, t)
	return t
}

// wait returns when a compilation that waits has a turn, or with ctx's error.
func (s *turns) wait(ctx std.Context, t *turn) error {
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
		s.next() // it had been given the turn meanwhile
	}
	return ctx.Err()
}

// take notes that an owner has a turn. s.mu is held.
func (s *turns) take(owner string) {
	if len(s.had) > 1000 { // owners that are long gone
		clear(s.had)
	}
	s.number++
	s.had[owner] = s.number
}

// next gives a turn that is over to the owner that has waited for one longest; nobody waits: it is free. s.mu is held.
func (s *turns) next() {
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

// release ends a turn.
func (s *turns) release() {
	s.mu.Lock()
	s.next()
	s.mu.Unlock()
}

// yield ends a turn and waits for the next, if others wait. After an error the turn is gone.
func (s *turns) yield(ctx std.Context, owner string) (held bool, err error) {
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
