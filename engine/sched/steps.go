package sched

import "math"

// Several steps in flight (Options.Steps): each takes its part of what there is, so that there is something for the others.

// answers is how many of the first running requests, those that are answering, a step serves. Those whose step is in flight count: they have nothing left to compute until its tokens are there.
func (s *State) answers(first int) int {
	if n := s.options.Steps; n > 1 {
		return (first + n - 1) / n
	}
	return math.MaxInt
}

// mostPieces is the most steps that prompts are divided into which one step would have room for.
const mostPieces = 16

// besideTokens is how many tokens take as long as what a step takes beside its tokens, where no price says so.
const besideTokens = 64

// prompts is how many tokens of prompts a step takes. n steps of a pipeline of s stages take as long as n + s - 1 steps on one of them: the first has to go through all stages before
// the last is done. More of them leave stages idle for less long, and cost what a step costs beside its tokens, as reading the weights; the price says how many are best.
func (s *State) prompts() int {
	o := &s.options
	if o.Steps < 2 || o.Price == nil || o.Whole {
		return math.MaxInt
	}
	all := 0
	for _, r := range s.running {
		if r.left() > short {
			all += r.left()
		}
	}
	if s.waiting.len() > 0 && len(s.running) < o.MaxSeqs {
		all += s.tokens
	}
	best, least := math.MaxInt, math.Inf(1)
	if all == 0 {
		return best
	}
	for n := 1; n <= mostPieces; n++ {
		each := (all + n - 1) / n
		each = (each + o.PageSize - 1) / o.PageSize * o.PageSize
		if each > o.MaxBatchedTokens {
			continue // the step's own bound cuts it
		}
		took := o.Price(Shape{}.add(0, each, false))
		if took <= 0 { // there is no telling
			took = float64(each + besideTokens)
		}
		if took *= float64((all+each-1)/each + o.Steps - 1); took < least {
			best, least = each, took
		}
		if each <= o.PageSize {
			break
		}
	}
	return best
}
