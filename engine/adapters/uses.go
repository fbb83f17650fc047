package adapters

import "math"

// Uses is how often things were used of late, by their ids: counts that forget, a half in so many uses of anything. So it follows traffic as
// it changes, however fast requests come.
type Uses struct {
	half   float64 // uses of anything after which one counts for a half
	clock  float64 // uses so far
	counts map[uint64]count
}

// count is the uses of one thing, as they counted at a time of the clock.
type count struct{ n, at float64 }

// NewUses is an account without uses, in which one counts for a half after so many others.
func NewUses(half int) *Uses { return &Uses{half: float64(half), counts: map[uint64]count{}} }

// Note counts a use.
func (u *Uses) Note(id uint64) {
	u.clock++
	u.counts[id] = count{u.Rate(id) + 1, u.clock}
	if len(u.counts) > 2*int(u.half)+64 {
		u.prune()
	}
}

// Rate is how often a thing was used, in proportion to others: the chance that the next use is of it, times a number that is the same for all.
func (u *Uses) Rate(id uint64) float64 {
	c, ok := u.counts[id]
	if !ok {
		return 0
	}
	return c.n * math.Exp2((c.at-u.clock)/u.half)
}

// prune drops those of which next to nothing is left.
func (u *Uses) prune() {
	for id := range u.counts {
		if u.Rate(id) < 1.0/16 {
			delete(u.counts, id)
		}
	}
}
