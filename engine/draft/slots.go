package draft

// Slots says which part of a drafter's memory each sequence has: a sequence without one gets that of no sequence, or of the one that was last asked for
// longest ago.
type Slots struct {
	owners []owner
	of     map[int64]int
	calls  int64
}

// owner is the sequence that has a slot, or had it last.
type owner struct {
	id     int64
	used   bool
	called int64 // when it was last asked for
}

// NewSlots makes slots, numbered from 0 on.
func NewSlots(n int) Slots { return Slots{owners: make([]owner, n), of: map[int64]int{}} }

// Call begins a call: the slots that it asks for are not given to others before the next.
func (s *Slots) Call() { s.calls++ }

// Find is the slot that a sequence has.
func (s *Slots) Find(id int64) (slot int, has bool) {
	slot, has = s.of[id]
	return slot, has
}

// Called reports whether the call at hand has asked for a slot.
func (s *Slots) Called(slot int) bool { return s.owners[slot].called == s.calls }

// Take is the slot that a sequence has or gets now, which makes it fresh; -1 when this call needs all for others.
func (s *Slots) Take(id int64) (slot int, fresh bool) {
	slot, has := s.of[id]
	if !has {
		for i := range s.owners {
			if x, least := &s.owners[i], &s.owners[slot]; !x.used && least.used || x.used == least.used && x.called < least.called {
				slot = i
			}
		}
		x := &s.owners[slot]
		if x.used && x.called == s.calls {
			return -1, false
		}
		if x.used {
			delete(s.of, x.id)
		}
		x.id, x.used, s.of[id] = id, true, slot
	}
	s.owners[slot].called = s.calls
	return slot, !has
}

// Forget gives the slot of a sequence that has ended back.
func (s *Slots) Forget(id int64) {
	if slot, has := s.of[id]; has {
		s.owners[slot].used = false
		delete(s.of, id)
	}
}
