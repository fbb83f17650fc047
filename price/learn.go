package price

import "github.com/ridge-llm/ridge/graph"

// Learn takes in many timed steps at once, in place of what was learnt before: afterwards half of them take longer than predicted and
// half less. Observe follows a device through its moods and ends with the last one; this is for what lies in the past as a whole.
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
		m.correct[kind].settle(rows)
	}
}

const (
	settleRounds = 2000
	settled      = 1e-7 // of a factor, in a round
	tiny         = 0.01 // misses below this count as their square
)

// settle finds the factors with the least Σ |1 − row·factor|, whose median step is predicted as it was, by going down one factor after the
// other with weights that make squares of misses count as the misses. A factor that no step tells anything about stays 1.
func (c *correction) settle(rows [][partCount]float64) {
	misses := make([]float64, len(rows))
	for range settleRounds {
		moved := 0.0
		for i := range rows {
			misses[i] = 1 - c.apply(&rows[i])
		}
		for k := range c.factor {
			up, size := (1-c.factor[k])/unsure, 1/unsure
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
		if moved < settled {
			return
		}
	}
}
