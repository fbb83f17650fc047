package price

import "github.com/ridge-llm/ridge/graph"

// Observe updates the correction factors by the time that a step took, s, and returns what had been predicted.
func (m *Model) Observe(s *graph.Step, seconds float64) (predicted float64) {
	l := m.measure(s)
	if last := m.adapted.Load(); l.adapters.rows > 0 || last != nil && last.adapters.rows > 0 {
		seen := l // so that a step without adapters allocates nothing
		m.adapted.Store(&seen)
	}
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

// Late is the current 99th percentile of actual / predicted − 1, over steps with prefill beside decoding: the margin to plan with so that
// 99 % of such steps meet a limit.
func (m *Model) Late() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.margin()
}

// Trusted reports whether predictions are good enough to schedule by: after trustedSteps, with a recent error of at most trustedError.
// Callers use fixed limits otherwise.
func (m *Model) Trusted() bool {
	err, steps := m.Error()
	return steps >= trustedSteps && err <= trustedError
}

// trustedError is the largest recent error of trusted predictions.
const trustedError = 0.35

const trustedSteps = 8
