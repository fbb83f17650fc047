package background

import (
	"errors"
	"testing"
)

// TestQueue: owners have slots in round robin, however much work one has, and no owner's queue grows beyond the most that there may be.
func TestQueue(t *testing.T) {
	const most = 64
	s := NewQueue(1, most)
	if err := s.Acquire(t.Context(), "hostile"); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for range most {
		s.queue("hostile")
	}
	s.mu.Unlock()
	var full *FullError
	if err := s.Acquire(t.Context(), "hostile"); !errors.As(err, &full) || full.Waiting != most {
		t.Errorf("one more: %v", err)
	}
	s.mu.Lock()
	first, second := s.queue("other"), s.queue("other")
	if s.next(); !begun(first) {
		t.Error("another owner has to wait for more than the slot in use")
	}
	if s.next(); begun(second) {
		t.Error("the other owner has two slots, one after the other")
	}
	if s.next(); !begun(second) {
		t.Error("the other owner's second slot does not come after one of the first's")
	}
}

func begun(w *waiter) bool {
	select {
	case <-w.begin:
		return true
	default:
		return false
	}
}
