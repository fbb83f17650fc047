package price

// correction learns, from steps that were timed, by what the parts of a price are to be multiplied: recursive least
// squares on relative errors, so that a short step counts as much as a long one. What it forgets is limited, so that a
// factor that no step tells anything about stays what it was.
type correction struct {
	factor [partCount]float64            // of each part
	spread [partCount][partCount]float64 // how unsure they are: the covariance of the factors
}

// record is how predictions did.
type record struct {
	steps             int64
	err               float64 // recent |predicted − actual| / actual, an average that forgets
	predicted, actual float64 // of the last step, s
	slow              float64 // actual / predicted of the latest steps, an average that forgets within a few
	planned           float64 // how many steps had part of a prompt beside answers
	late              float64 // by how much of predicted · slow the slowest two-hundredth of those took longer
}

const (
	unsure   = 0.25 // variance of a factor before any step
	noise    = 0.01 // variance of the relative time of a step
	drift    = 1e-5 // variance that a factor gains with every step
	leastFix = 0.2  // bounds of the factors
	mostFix  = 5
	wildStep = 4 // a step that took so many times as long, or short, as predicted is an interruption and teaches little
	errSteps = 50

	// late goes up by a large part of a move with a step that took longer and down by a small one with others, so that it
	// stays where lateShare of the steps do (Robbins and Monro, 1951): half of the hundredth that may be late, since it is never quite where it should be.
	// Moves are lateSettle over the number of steps, within bounds: a server that is slow for half a second should not have to be slow ten times
	// before it is believed. Steps that only decode do not count: a pause is more to them than to those whose size the price decides.
	lateShare           = 0.005
	lateSettle          = 5
	leastMove, mostMove = 0.02, 0.1
	firstly             = 0.2 // late before any step: who begins with less is late until it has grown
	lateMost            = 0.5

	// Steps are slow together: a host takes its processors away for a second. What the last three or four took says what the next will.
	slowWeight = 0.3
	slowMost   = 2 // a step that took longer than that counts as that
)

func (c *correction) reset() {
	*c = correction{}
	for i := range c.factor {
		c.factor[i] = 1
		c.spread[i][i] = unsure
	}
}

// apply is the corrected sum of parts, s.
func (c *correction) apply(parts *[partCount]float64) float64 {
	sum := 0.0
	for i, p := range parts {
		sum += c.factor[i] * p
	}
	return sum
}

// learn takes in a step that took so many seconds.
func (c *correction) learn(parts *[partCount]float64, seconds float64) {
	predicted := c.apply(parts)
	seconds = min(max(seconds, predicted/wildStep), predicted*wildStep)
	var x, gain [partCount]float64 // the parts relative to the time, and what a miss moves the factors by
	for i := range parts {
		x[i] = parts[i] / seconds
	}
	scale := noise
	for i := range x {
		c.spread[i][i] = min(c.spread[i][i]+drift, unsure)
		for j := range x {
			gain[i] += c.spread[i][j] * x[j]
		}
	}
	for i := range x {
		scale += x[i] * gain[i]
	}
	off := 1 - predicted/seconds
	for i := range x {
		c.factor[i] = min(max(c.factor[i]+gain[i]/scale*off, leastFix), mostFix)
	}
	for i := range x {
		for j := range x {
			c.spread[i][j] -= gain[i] * gain[j] / scale
		}
	}
}

// note takes in a step that took so many seconds; planned says that it had part of a prompt beside answers.
func (r *record) note(predicted, seconds float64, planned bool) {
	r.predicted, r.actual = predicted, seconds
	miss := (predicted - seconds) / seconds
	weight := max(1.0/errSteps, 1/float64(r.steps+1))
	r.err += weight * (min(max(miss, -miss), wildStep) - r.err)
	r.steps++
	if planned {
		r.planned++
		move := min(max(lateSettle/r.planned, leastMove), mostMove)
		if seconds > predicted*(1+r.margin()) {
			r.late = min(r.late+(1-lateShare)*move, lateMost)
		} else {
			r.late = max(r.late-lateShare*move, 0)
		}
	}
	r.slow += slowWeight * (min(seconds/predicted, slowMost) - r.slow)
}

// margin is what has to be added to a prediction, in parts of it, for 99 of 100 steps to take no longer.
func (r *record) margin() float64 { return max(r.slow, 1)*(1+r.late) - 1 }
