// Package adapters keeps account of which adapters are in which of a program's slots. It knows numbers alone: adapters by their ids.
//
// A slot is held by the requests that use its adapter. One that is not held keeps its adapter until another needs the room: the one goes first that
// costs least to be without, which is the time to load it again times how often it was used of late. A request that has waited for the aging bound
// has slots closed for it: they take no further requests, and are free when those that hold them have ended; and nobody behind it gets a slot
// that is free. So no adapter waits for ever behind others that always have requests.
package adapters

import (
	"cmp"
	"slices"
)

// Pool is the slots.
type Pool struct {
	slots []slot
	uses  *Uses
	price func(id uint64) float64 // what it takes to load an adapter again
}

// slot is what is in one.
type slot struct {
	id      uint64 // of its adapter; 0: none
	holders int    // requests
	used    int64  // the number of the Take that used it last
	closed  bool   // no further request gets it
}

// Load says that an adapter is to be put into a slot.
type Load struct {
	ID   uint64
	Slot int
}

// New is a pool of empty slots. price is what it takes to load an adapter again, in any unit; where it is the same, how often one was used
// decides alone.
func New(slots int, price func(id uint64) float64) *Pool {
	return &Pool{slots: make([]slot, slots), uses: NewUses(max(8*slots, 64)), price: price}
}

// Take has a request hold the slots of all its adapters, which are different ones and no more than there are slots, or of none if there is
// no room yet. loads are the adapters that have to be put into their slots before they are used; it is appended to. With resident set none is
// evicted and no empty slot filled: only adapters that are in slots are found.
func (p *Pool) Take(ids []uint64, resident bool, slots []int, loads []Load) ([]int, []Load, bool) {
	before, had := slices.Clone(p.slots), len(loads)
	slots = slots[:0]
	for _, id := range ids {
		at := p.find(id)
		switch {
		case at >= 0 && p.slots[at].closed || at < 0 && resident:
			at = -1
		case at < 0:
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
		slots = append(slots, at)
	}
	for i, id := range ids {
		p.uses.Note(id)
		p.slots[slots[i]].used = int64(p.uses.clock)
	}
	return slots, loads, true
}

// find is the slot that an adapter is in; -1: it is in none.
func (p *Pool) find(id uint64) int {
	return slices.IndexFunc(p.slots, func(s slot) bool { return s.id == id })
}

// Has reports whether an adapter is in a slot.
func (p *Pool) Has(id uint64) bool { return p.find(id) >= 0 }

// free is the slot to put another adapter in, of none of ids; -1: all are held.
func (p *Pool) free(ids []uint64) int {
	best, least := -1, 0.0
	for i, s := range p.slots {
		if s.holders > 0 || slices.Contains(ids, s.id) {
			continue
		}
		if s.id == 0 {
			return i
		}
		worth := p.worth(&s)
		if best < 0 || worth < least || worth == least && s.used < p.slots[best].used {
			best, least = i, worth
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
func (p *Pool) Release(slots []int) {
	for _, i := range slots {
		s := &p.slots[i]
		if s.holders--; s.holders == 0 && s.closed {
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

// age has so many slots empty, or closed to further requests, for requests that have waited for the aging bound, if one has: of those that nobody
// holds the ones that cost least to be without, and then those with the fewest holders. Adapters in keep, which the first of the requests has use for,
// stay. If none has waited so long all are open again.
func (p *Pool) age(need int, waits bool, keep []uint64) {
	var open []int
	for i := range p.slots {
		s := &p.slots[i]
		switch {
		case !waits || slices.Contains(keep, s.id):
			s.closed = false
		case s.closed || s.id == 0:
			need--
		default:
			open = append(open, i)
		}
	}
	slices.SortStableFunc(open, func(a, b int) int {
		x, y := &p.slots[a], &p.slots[b]
		return cmp.Or(cmp.Compare(x.holders, y.holders), cmp.Compare(p.worth(x), p.worth(y)))
	})
	for _, i := range open[:min(len(open), max(need, 0))] {
		if s := &p.slots[i]; s.holders == 0 {
			*s = slot{}
		} else {
			s.closed = true
		}
	}
}

// open reports whether a slot that takes further requests has an adapter.
func (p *Pool) open(id uint64) bool {
	at := p.find(id)
	return at >= 0 && !p.slots[at].closed
}

// worth is what it costs, by what was used of late, to be without the adapter in a slot.
func (p *Pool) worth(s *slot) float64 { return p.price(s.id) * p.uses.Rate(s.id) }
