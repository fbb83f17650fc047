package sched

import (
	"math"
	"testing"
)

// TestParts: a step takes its part of the requests that are answering, those in flight counted, and of prompts as much as lets the stages work side by side, whole pages, by the price or without one.
func TestParts(t *testing.T) {
	for _, c := range []struct{ steps, answering, want int }{{0, 9, math.MaxInt}, {1, 9, math.MaxInt}, {2, 8, 4}, {2, 9, 5}, {3, 1, 1}, {4, 9, 3}, {2, 0, 0}} {
		if got := (&State{options: Options{Steps: c.steps}}).answers(c.answering); got != c.want {
			t.Errorf("%d steps in flight: one serves %d of %d that answer; %d are its part", c.steps, got, c.answering, c.want)
		}
	}
	flat := func(Shape) float64 { return 1000 }                              // tokens cost nothing: one piece
	linear := func(s Shape) float64 { return float64(s.Tokens) }             // steps cost nothing: as many pieces as there may be
	unknown := func(Shape) float64 { return 0 }                              // there is no telling
	usual := func(s Shape) float64 { return 100 + float64(s.Tokens)*100/64 } // as besideTokens has it
	for _, c := range []struct {
		steps, left int
		price       func(Shape) float64
		want        int
	}{
		{1, 480, linear, math.MaxInt}, {2, 480, nil, math.MaxInt}, {2, 0, linear, math.MaxInt},
		{2, 480, flat, 480}, {2, 480, linear, 32}, {2, 480, usual, 160}, {2, 480, unknown, 160}, {4, 480, usual, 96}, {2, 20, linear, 16}, {2, 100_000, usual, math.MaxInt},
	} {
		s := &State{options: Options{Steps: c.steps, MaxBatchedTokens: 512, PageSize: 16, Price: c.price}}
		if c.left > 0 {
			s.running = []*Request{{Target: c.left, Limit: c.left}}
		}
		if got := s.prompts(); got != c.want {
			t.Errorf("%d steps in flight take %d of %d tokens; %d are best", c.steps, got, c.left, c.want)
		}
	}
}
