package simulate

import (
	"errors"
	"math"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/ridge-llm/ridge/graph"
)

// knots are the numbers of tokens between which a step's time is a line: one sequence alone, few that decode together, a
// chunk of a prompt, larger ones.
var knots = []float64{1, 8, 32, 128, 512}

// features is what a step's time is taken to be a sum of: a constant, the part of its tokens between each two knots, and
// thousands of cache rows.
func features(s *graph.Step) []float64 {
	x := []float64{1}
	tokens := float64(s.Tokens())
	for i, knot := range knots {
		part := max(tokens-knot, 0)
		if i+1 < len(knots) {
			part = min(part, knots[i+1]-knot)
		}
		x = append(x, part)
	}
	return append(x, float64(s.CtxRows(0))/1000)
}

// Learn finds what steps cost from steps that were measured, by least squares on the relative error. What it returns never
// goes below half of the shortest step.
func Learn(steps []graph.Step, took []time.Duration) (cost func(*graph.Step) float64, err error) {
	shortest := math.Inf(1)
	var rows []float64
	var right []float64
	for i := range min(len(steps), len(took)) {
		t := took[i].Seconds()
		if t <= 0 {
			continue
		}
		shortest = min(shortest, t)
		for _, x := range features(&steps[i]) {
			rows = append(rows, x/t)
		}
		right = append(right, 1)
	}
	n := len(features(&graph.Step{}))
	if len(right) < 2 {
		return nil, errors.New("simulate: the recording has too few steps to learn from what they cost")
	}
	// A little of every coefficient is held to 0, so that what the recording says nothing of stays small.
	const hold = 1e-6
	for i := range n {
		for j := range n {
			x := 0.0
			if i == j {
				x = hold * math.Sqrt(float64(len(right))) / shortest
			}
			rows = append(rows, x)
		}
	}
	right = append(right, make([]float64, n)...)
	var solved mat.VecDense
	if err := solved.SolveVec(mat.NewDense(len(right), n, rows), mat.NewVecDense(len(right), right)); err != nil {
		return nil, errors.New("simulate: the recorded steps are too alike to learn from what others cost")
	}
	c := solved.RawVector().Data
	return func(s *graph.Step) float64 {
		sum := 0.0
		for i, x := range features(s) {
			sum += c[i] * x
		}
		return max(sum, shortest/2)
	}, nil
}
