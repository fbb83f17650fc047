// Package predict says how long steps will take, and from that how long a request will wait for its first token.
package predict

import (
	"math/bits"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
)

// Predictor says how long a step will take. It is asked many times while a step is scheduled; one call at a time.
type Predictor interface {
	// Predict is how long a step of that shape will take, in seconds; 0 while that is unknown, and averages are used.
	Predict(sched.Shape) float64
	// Observe takes in how long a step took, in seconds, and returns what it would have predicted; 0 if it keeps no score.
	Observe(*graph.Step, float64) (predicted float64)
}

// Cautious is a Predictor that knows by how much of what it predicts the slowest hundredth of steps takes longer.
type Cautious interface{ Late() float64 }

// averages is the Predictor that knows no model: it remembers how long steps of about so many tokens took. The length of
// contexts does not enter, beyond making the averages what they are.
type averages [bits.UintSize]average // by the number of bits of the tokens

// average is of the steps of 2ⁿ⁻¹ to 2ⁿ-1 tokens; the recent count for more.
type average struct {
	tokens, seconds float64
	steps           float64 // that it was made of, at most as many as count
}

// Observe implements Predictor.
func (a *averages) Observe(s *graph.Step, seconds float64) (predicted float64) {
	tokens := s.Tokens()
	predicted = a.Predict(sched.Shape{Tokens: tokens})
	size := bits.Len(uint(tokens))
	// Fewer tokens do not take wild times as long: what is remembered of them was held up, as a device's first step is for seconds by kernels that it loads.
	for i := range a[:size+1] {
		if seconds > 0 && a[i].seconds > wild*seconds {
			a[i] = average{}
		}
	}
	b := &a[size]
	usual := b.seconds
	if b.steps == 0 {
		b.tokens, usual = float64(tokens), predicted
	}
	if usual > 0 {
		seconds = min(seconds, wild*usual)
	}
	if b.steps == 0 {
		b.seconds = seconds
	}
	b.tokens += forget * (float64(tokens) - b.tokens)
	b.seconds += forget * (seconds - b.seconds)
	b.steps = min(b.steps+1, 1/forget)
	return predicted
}

// Predict implements Predictor. Between two averages it is the line, below the first the first, since a step with few
// tokens takes as long as reading the weights does, and beyond the last it grows with the tokens.
func (a *averages) Predict(s sched.Shape) float64 {
	tokens := float64(s.Tokens)
	var points [bits.UintSize]average
	n := 0
	for _, b := range a {
		if b.steps == 0 {
			continue
		}
		for ; n > 0 && points[n-1].seconds > b.seconds; n-- { // more tokens never take less time: the mean of both does
			c := points[n-1]
			b.seconds = (b.steps*b.seconds + c.steps*c.seconds) / (b.steps + c.steps)
			b.steps += c.steps
		}
		points[n] = b
		n++
	}
	var below average
	for _, b := range points[:n] {
		if tokens <= b.tokens {
			if below.steps == 0 {
				return b.seconds
			}
			line := below.seconds + (b.seconds-below.seconds)*(tokens-below.tokens)/(b.tokens-below.tokens)
			return min(line, b.seconds) // rounding must not make it more
		}
		below = b
	}
	if below.steps == 0 {
		return 0
	}
	return below.seconds * tokens / below.tokens
}

const (
	forget = 0.05 // weight of the newest step in the averages
	wild   = 3    // what a step took that is beyond so many times the average was not its own: another process had the processor
)

// Comparing is a Predictor that can compare steps also while its predictions are not good enough to plan by, as on a machine that others
// keep busy: what makes all steps slower makes no difference.
type Comparing interface {
	// Estimate is Predict without regard to how good it is.
	Estimate(sched.Shape) float64
}

// Times is how long steps take: as a Predictor says or, while it cannot tell, as steps of about their size took. Goroutines may use it
// at the same time.
type Times struct {
	mu        sync.Mutex // the predictor is asked one thing at a time
	predictor Predictor  // may be nil
	measured  averages
}

// New goes by a predictor; nil: by averages alone.
func New(p Predictor) *Times { return &Times{predictor: p} }

// Predict is how long a step of that shape will take, in seconds; 0 before the first step.
func (t *Times) Predict(s sched.Shape) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.predictor != nil {
		if seconds := t.predictor.Predict(s); seconds > 0 {
			return seconds
		}
	}
	return t.measured.Predict(s)
}

// Estimate is how long a step of that shape takes, to be compared with others' only, in seconds; 0 before anything is known.
func (t *Times) Estimate(s sched.Shape) float64 {
	if c, ok := t.predictor.(Comparing); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		if seconds := c.Estimate(s); seconds > 0 {
			return seconds
		}
		return t.measured.Predict(s)
	}
	return t.Predict(s)
}

// Price is Predict with so much to spare that 99 of 100 steps take no longer, in seconds.
func (t *Times) Price(s sched.Shape) float64 {
	seconds := t.Predict(s)
	if c, ok := t.predictor.(Cautious); ok {
		seconds *= 1 + c.Late()
	}
	return seconds
}

// Usual is what Price is to be compared with: how long a step of that shape takes, with the same to spare, in seconds. A cautious predictor's prediction is
// of steps that nothing held up; on a machine that others use too what was measured is more.
func (t *Times) Usual(s sched.Shape) float64 {
	seconds := t.Price(s)
	if _, ok := t.predictor.(Cautious); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		seconds = max(seconds, t.measured.Predict(s))
	}
	return seconds
}

// Observe notes how long a step took, and returns what had been predicted, s.
func (t *Times) Observe(size *graph.Step, took time.Duration) (predicted float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	predicted = t.measured.Observe(size, took.Seconds())
	if t.predictor != nil {
		predicted = t.predictor.Observe(size, took.Seconds())
	}
	return predicted
}
