package price

import "github.com/ridge-llm/ridge/graph"

// Observe takes in how long a step took, s, and returns what had been predicted. Later predictions are the better for it.
func (m *Model) Observe(s *graph.Step, seconds float64) (predicted float64) {
	l := m.measure(s)
	parts := m.parts(&l)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.correct[m.kind(&l)]
	predicted = c.apply(&parts)
	if seconds > 0 && predicted > 0 {
		m.record.note(predicted, seconds, !l.decodes && len(s.Seqs) > 1 && s.Logits > 0)
		c.learn(&parts, seconds)
	}
	return predicted
}

// Error is the recent relative error of predictions, |predicted − actual| / actual, and how many steps were seen; 0
// before the first.
func (m *Model) Error() (ratio float64, steps int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.err, m.record.steps
}

// Last is what the last step was predicted to take and what it took, s.
func (m *Model) Last() (predicted, actual float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.predicted, m.record.actual
}

// Late is by how much of what was predicted the slowest hundredth of steps with prompts beside answers takes longer, as things are: who must
// keep a bound with 99 of 100 such steps plans with that much to spare.
func (m *Model) Late() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.margin()
}

// Trusted reports whether predictions are good enough to decide by: after a few steps, and with a recent error of no more
// than trustedError. Consumers go by plain thresholds when they are not.
func (m *Model) Trusted() bool {
	err, steps := m.Error()
	return steps >= trustedSteps && err <= trustedError
}

// trustedError is the largest recent error with which predictions are decided by.
const trustedError = 0.35

const trustedSteps = 8
