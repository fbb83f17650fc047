package price

// correction is a factor for each part of a price, learned online from timed steps: recursive least squares on relative errors, so that
// a short step counts as much as a long one. Forgetting is bounded, so that a factor without evidence keeps its value.
type correction struct {
	factor [partCount]float64            // of each part
	spread [partCount][partCount]float64 // covariance of the factors
}

// record is statistics of prediction errors.
type record struct {
	steps             int64
	err               float64 // recent |predicted − actual| / actual, an exponential moving average
	predicted, actual float64 // of the last step, s
	slow              float64 // actual / predicted of the latest steps, a moving average over about three steps
	planned           float64 // steps with a prefill chunk beside decoding sequences
	late              float64 // the 99.5th percentile of their actual / (predicted · slow) − 1
}

const (
	initialVariance = 0.25 // variance of a factor before any step
	noise           = 0.01 // variance of the relative time of a step
	drift           = 1e-5 // variance that a factor gains with every step
	leastFix        = 0.2  // bounds of the factors
	mostFix         = 5
	wildStep        = 4 // a ratio of actual to predicted beyond this (or its inverse) is an outlier and is clipped
	errSteps        = 50

	// late is a quantile tracked by stochastic approximation (Robbins and Monro, 1951): a step beyond it raises it by (1 - lateShare) of a
	// move, any other lowers it by lateShare of one. lateShare is half of the 1 % of steps that may be late, since the estimate fluctuates.
	// A move is lateSettle over the number of steps, within bounds, so that half a second of slow steps already shows. Steps that only
	// decode do not count: their size is not chosen by price.
	lateShare           = 0.005
	lateSettle          = 5
	leastMove, mostMove = 0.02, 0.1
	initialLate         = 0.2 // late before any step: starting lower would miss targets until it has adapted
	lateMost            = 0.5

	// Slow steps come in runs, as when a hypervisor takes CPUs away for a second: the last few steps predict the next.
	slowWeight = 0.3
	slowMost   = 2 // larger ratios are clipped
)

func (c *correction) reset() {
	*c = correction{}
	for i := range c.factor {
		c.factor[i] = 1
		c.spread[i][i] = initialVariance
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

// learn updates the factors by a step that took so many seconds.
func (c *correction) learn(parts *[partCount]float64, seconds float64) {
	predicted := c.apply(parts)
	seconds = min(max(seconds, predicted/wildStep), predicted*wildStep)
	var x, gain [partCount]float64 // parts / seconds, and the gain of each factor
	for i := range parts {
		x[i] = parts[i] / seconds
	}
	scale := noise
	for i := range x {
		c.spread[i][i] = min(c.spread[i][i]+drift, initialVariance)
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

// note updates the statistics by a step that took so many seconds; planned says that it had a prefill chunk beside decoding sequences.
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

// margin is the fraction to add to a prediction so that 99 % of steps take no longer.
func (r *record) margin() float64 { return max(r.slow, 1)*(1+r.late) - 1 }
