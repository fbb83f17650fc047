// Package adapters keeps account of which adapters are in which of a program's slots. It knows numbers alone: adapters by their ids.
//
// A slot is held by the requests that use its adapter. One that is not held keeps its adapter until another needs the room: the one that
// was held last longest ago goes first. When all slots are held and a request has waited for the aging bound, one slot is closed: it takes no
// further requests, and is free when those that hold it have ended. So no adapter waits for ever behind others that always have requests.
package adapters

import "slices"

// Pool is the slots. Times are in nanoseconds, from any beginning.
type Pool struct {
	slots []slot
	aging int64
}

// slot is what is in one.
type slot struct {
	id      uint64 // of its adapter; 0: none
	holders int    // requests
	used    int64  // when it was held last
	closed  bool   // no further request gets it
}

// Load says that an adapter is to be put into a slot.
type Load struct {
	ID   uint64
	Slot int
}

// New is a pool of empty slots. A request waits for so long, at most, for slots that others keep busy.
func New(slots int, aging int64) *Pool { return &Pool{slots: make([]slot, slots), aging: aging} }

// Take has a request hold the slots of all its adapters, which are different ones and no more than there are slots, or of none if there is
// no room yet. loads are the adapters that have to be put into their slots before they are used; it is appended to.
func (p *Pool) Take(ids []uint64, now int64, slots []int, loads []Load) ([]int, []Load, bool) {
	before, had := slices.Clone(p.slots), len(loads)
	slots = slots[:0]
	for _, id := range ids {
		at := p.find(id)
		if at >= 0 && p.slots[at].closed {
			at = -2
		}
		if at == -1 {
			if at = p.free(ids); at >= 0 {
				p.slots[at] = slot{id: id}
				loads = append(loads, Load{id, at})
			}
		}
		if at < 0 {
			p.slots = before
			return slots[:0], loads[:had], false
		}
		p.slots[at].holders++
		p.slots[at].used = now
		slots = append(slots, at)
	}
	return slots, loads, true
}

// find is the slot that an adapter is in; -1: it is in none.
func (p *Pool) find(id uint64) int {
	return slices.IndexFunc(p.slots, func(s slot) bool { return s.id == id })
}

// free is the slot to put another adapter in, none of ids; -1: all are held.
func (p *Pool) free(ids []uint64) int {
	best := -1
	for i, s := range p.slots {
		if s.holders > 0 || slices.Contains(ids, s.id) {
			continue
		}
		if s.id == 0 {
			return i
		}
		if best < 0 || s.used < p.slots[best].used {
			best = i
		}
	}
	return best
}

// Share has a further request hold the slots that one holds already.
func (p *Pool) Share(slots []int) {
	for _, i := range slots {
		p.slots[i].holders++
	}
}

// Release ends what Take or Share began.
func (p *Pool) Release(slots []int, now int64) {
	for _, i := range slots {
		s := &p.slots[i]
		s.holders--
		s.used = now
		if s.holders == 0 && s.closed {
			*s = slot{}
		}
	}
}

// Forget takes an adapter that is not held out of its slot, because its numbers did not get there.
func (p *Pool) Forget(id uint64) {
	if i := p.find(id); i >= 0 && p.slots[i].holders == 0 {
		p.slots[i] = slot{}
	}
}

// Age closes a slot if the request that has waited longest, since some time, has done so for the aging bound, unless one is closed
// already: the one with the fewest holders. It opens all when none waits so long.
func (p *Pool) Age(waits bool, since, now int64) {
	if !waits || now-since < p.aging {
		for i := range p.slots {
			p.slots[i].closed = false
		}
		return
	}
	best := -1
	for i, s := range p.slots {
		if s.closed {
			return
		}
		if s.holders > 0 && (best < 0 || s.holders < p.slots[best].holders) {
			best = i
		}
	}
	if best >= 0 {
		p.slots[best].closed = true
	}
}
