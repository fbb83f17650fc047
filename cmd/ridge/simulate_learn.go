package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/simulate"
	"github.com/ridge-llm/ridge/price"
)

// learnFrom fits step times to recordings: the price that fits them, and the spread of errors around it.
func (f *simulateFlags) learnFrom(g *graph.Graph, p *price.Profile) error {
	m, err := price.New(g, p)
	if err != nil {
		return err
	}
	var steps []graph.Step
	var took []float64
	for _, file := range f.learn {
		s, t, err := recorded(file)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s, func(s graph.Step) bool { return len(s.Adapters) > 0 }) && f.options.Adapters.Count == 0 {
			return fmt.Errorf("--learn: the requests of %s have adapters, which cost time; say which the simulated ones have (--loras, --rank)", file)
		}
		steps, took = append(steps, s...), append(took, t...)
	}
	m.Learn(steps, took)
	cost := make([]float64, len(steps))
	for i := range steps {
		cost[i] = m.Predict(&steps[i])
	}
	f.renew = append(f.renew, func() error {
		spread := simulate.NewSpread(cost, took)
		f.options.Cost = func(s *graph.Step) float64 { return spread.Take(m.Predict(s)) }
		return nil
	})
	return nil
}

// recorded is the steps of a recording and what they took, s.
func recorded(file string) (steps []graph.Step, took []float64, err error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, nil, fmt.Errorf("--learn: %w", err)
	}
	defer in.Close()
	r, err := simulate.ReadRecording(file, in)
	if err != nil {
		return nil, nil, err
	}
	c, steps, err := simulate.Replay(r)
	if err != nil {
		return nil, nil, err
	}
	if c.Differs != "" {
		return nil, nil, fmt.Errorf("--learn: %s does not replay as it was recorded, so that its steps are not known: %s; record the server from its start on", file, c.Differs)
	}
	for _, t := range r.Took() {
		took = append(took, t.Seconds())
	}
	n := min(len(steps), len(took))
	return steps[:n], took[:n], nil
}
