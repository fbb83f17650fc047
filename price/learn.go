package price

import "github.com/ridge-llm/ridge/graph"

// Learn fits the correction factors to many timed steps at once and replaces what was learned before: the median error of these steps
// becomes 0. Observe is for steps as they run, and follows changes; this is for a finished recording.
func (m *Model) Learn(steps []graph.Step, seconds []float64) {
	var parts [2][][partCount]float64 // relative to the step's time
	for i := range min(len(steps), len(seconds)) {
		if !(seconds[i] > 0) {
			continue
		}
		l := m.measure(&steps[i])
		row := m.parts(&l)
		for k := range row {
			row[k] /= seconds[i]
		}
		parts[m.kind(&l)] = append(parts[m.kind(&l)], row)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, rows := range parts {
		m.correct[kind].reset()
		m.correct[kind].solve(rows)
	}
}

const (
	solveRounds = 2000
	converged   = 1e-7 // change of a factor in a round
	tiny        = 0.01 // errors below this count by their square
)

// solve finds the factors with the least Σ |1 − row·factor| by coordinate descent on iteratively reweighted squares. A factor without
// evidence stays 1.
func (c *correction) solve(rows [][partCount]float64) {
	misses := make([]float64, len(rows))
	for range solveRounds {
		moved := 0.0
		for i := range rows {
			misses[i] = 1 - c.apply(&rows[i])
		}
		for k := range c.factor {
			up, size := (1-c.factor[k])/initialVariance, 1/initialVariance
			for i := range rows {
				weight := 1 / max(misses[i], -misses[i], tiny)
				up += weight * rows[i][k] * misses[i]
				size += weight * rows[i][k] * rows[i][k]
			}
			step := min(max(c.factor[k]+up/size, leastFix), mostFix) - c.factor[k]
			c.factor[k] += step
			for i := range rows {
				misses[i] -= step * rows[i][k]
			}
			moved = max(moved, step, -step)
		}
		if moved < converged {
			return
		}
	}
}
