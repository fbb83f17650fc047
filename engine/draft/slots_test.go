package draft

import "testing"

// TestSlots: a sequence keeps its slot; one that comes gets a free slot, the one that was asked for longest ago first, else that of the sequence that was
// asked for longest ago; but no slot that the same call has asked for.
func TestSlots(t *testing.T) {
	s := NewSlots(2)
	take := func(id int64, slot int, fresh bool) {
		t.Helper()
		if got, isFresh := s.Take(id); got != slot || isFresh != fresh {
			t.Errorf("sequence %d got slot %d, fresh: %t; want %d, %t", id, got, isFresh, slot, fresh)
		}
	}
	s.Call()
	take(10, 0, true)
	take(11, 1, true)
	take(12, -1, false)
	take(10, 0, false)
	s.Call()
	take(11, 1, false)
	take(12, 0, true) // 10's, which was not asked for
	if _, has := s.Find(10); has {
		t.Error("a sequence whose slot was given to another still has it")
	}
	s.Call()
	s.Forget(11)
	if take(10, 1, true); !s.Called(1) || s.Called(0) {
		t.Error("slots 0 and 1 were asked for in this call:", s.Called(0), s.Called(1))
	}
	s.Forget(12)
	s.Forget(10)
	s.Call()
	take(13, 0, true) // free longest
}
