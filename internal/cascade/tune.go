package cascade

import (
	"cmp"
	"fmt"
	"slices"
)

// Tried is what the two models of a cascade make of a prompt.
type Tried struct {
	Confidence float64 `json:"confidence"` // of the small model
	Small      Answer  `json:"small"`
	Large      Answer  `json:"large"`
}

// Answer is what one model's answer is worth and took.
type Answer struct {
	Text    string  `json:"text"`
	Quality float64 `json:"quality"` // 0 to 1
	Seconds float64 `json:"seconds"`
}

// Point is what a threshold would have brought, on average over prompts.
type Point struct {
	Threshold float64 `json:"threshold"`
	Passed    float64 `json:"passed"`  // share of the prompts that went on to the large model
	Seconds   float64 `json:"seconds"` // of both models
	Quality   float64 `json:"quality"`
}

// Points is what each threshold that makes a difference would have brought, from 0, with which nothing is passed on, up; the last passes all on.
func Points(all []Tried) []Point {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Tried) int { return cmp.Compare(a.Confidence, b.Confidence) })
	n := float64(len(sorted))
	now := Point{}
	for _, t := range sorted {
		now.Seconds += t.Small.Seconds / n
		now.Quality += t.Small.Quality / n
	}
	points := []Point{now}
	for i, t := range sorted {
		now.Passed += 1 / n
		now.Seconds += t.Large.Seconds / n
		now.Quality += (t.Large.Quality - t.Small.Quality) / n
		now.Threshold = 1
		if i+1 < len(sorted) {
			if now.Threshold = (t.Confidence + sorted[i+1].Confidence) / 2; sorted[i+1].Confidence == t.Confidence {
				continue
			}
		}
		points = append(points, now)
	}
	return points
}

// Alone is what one model would have brought: the large one.
func Alone(all []Tried) (p Point) {
	for _, t := range all {
		p.Seconds += t.Large.Seconds / float64(len(all))
		p.Quality += t.Large.Quality / float64(len(all))
	}
	p.Threshold, p.Passed = 1, 1
	return p
}

// Choose is the point that takes least of those whose quality is at least so much of the large model's alone.
func Choose(points []Point, alone Point, keep float64) (Point, error) {
	if !(keep > 0 && keep <= 1) {
		return Point{}, fmt.Errorf("cascade: %g of the large model's quality is to be kept; above 0 and up to 1 is possible", keep)
	}
	best, found := Point{}, false
	for _, p := range points {
		if p.Quality >= keep*alone.Quality-1e-9 && (!found || p.Seconds < best.Seconds) {
			best, found = p, true
		}
	}
	if !found {
		return Point{}, fmt.Errorf("cascade: no threshold keeps %g of the large model's quality", keep)
	}
	return best, nil
}
