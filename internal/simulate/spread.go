package simulate

import (
	"cmp"
	"math"
	"slices"
)

// Spread is by how much steps that were measured took longer or shorter than they cost. A machine pauses, and what is 3 ms for a step
// of 10 is nothing for one of 500: so a step takes after measured ones of about its own cost.
type Spread struct {
	steps  []spreadStep // in the order of cost
	drawn  int          // so far
	ratios []float64    // of those that one draw is from
}

type spreadStep struct{ cost, ratio float64 }

// A step takes after the measured ones that cost most nearly the same: no fewer than fewAlike, and up to mostAlike that cost no more than
// likeness times as much or as little.
const (
	fewAlike  = 8
	mostAlike = 64
	likeness  = 1.5
)

// NewSpread compares what steps cost, s, with what they took.
func NewSpread(cost, took []float64) *Spread {
	s := &Spread{}
	for i := range min(len(cost), len(took)) {
		if cost[i] > 0 && took[i] > 0 {
			s.steps = append(s.steps, spreadStep{cost[i], took[i] / cost[i]})
		}
	}
	slices.SortStableFunc(s.steps, func(a, b spreadStep) int { return cmp.Compare(a.cost, b.cost) })
	return s
}

// Take is how long a step takes now, s, that costs so much: another one of the measured ratios for every step, and the same in every
// simulation. They come evenly, by steps of the golden ratio through their order, so that a short simulation has its share of slow steps and no
// more.
func (s *Spread) Take(cost float64) float64 {
	near := s.near(cost)
	if len(near) == 0 {
		return cost
	}
	s.ratios = s.ratios[:0]
	for _, x := range near {
		s.ratios = append(s.ratios, x.ratio)
	}
	slices.Sort(s.ratios)
	s.drawn++
	_, part := math.Modf(float64(s.drawn) / math.Phi)
	return cost * s.ratios[int(part*float64(len(s.ratios)))]
}

// near is the measured steps that one of this cost takes after.
func (s *Spread) near(cost float64) []spreadStep {
	at, _ := slices.BinarySearchFunc(s.steps, cost, func(x spreadStep, cost float64) int { return cmp.Compare(x.cost, cost) })
	from, to := at, at
	off := func(i int) float64 { // by what factor step i costs more or less
		if i < 0 || i >= len(s.steps) {
			return math.Inf(1)
		}
		return max(s.steps[i].cost/cost, cost/s.steps[i].cost)
	}
	for to-from < min(mostAlike, len(s.steps)) {
		below, above := off(from-1), off(to)
		if min(below, above) > likeness && to-from >= fewAlike {
			break
		}
		if below < above {
			from--
		} else {
			to++
		}
	}
	return s.steps[from:to]
}
