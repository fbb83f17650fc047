package ridge

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/internal/calibrate"
	"github.com/ridge-llm/ridge/price"
)

// profileOf is what pricing knows of a device: what ridge calibrate kept, or a guess, which steps correct.
func profileOf(dev backend.Device) *price.Profile {
	if p, err := calibrate.Cached(dev); p != nil && err == nil {
		return p
	}
	return calibrate.Nominal(dev)
}

// pricing is the engine's Predictor: the price of steps, corrected by those that ran; it observes as the Model does.
type pricing struct{ *price.Model }

// Predict implements predict.Predictor. While recent predictions were too far off there is no telling, and the engine goes
// by averages of what it measured.
func (p pricing) Predict(s sched.Shape) float64 {
	if !p.Trusted() {
		return 0
	}
	return p.PredictShape(price.Shape(s))
}

// Estimate implements predict.Comparing.
func (p pricing) Estimate(s sched.Shape) float64 { return p.PredictShape(price.Shape(s)) }

// PriceStats says how good predictions of steps are.
type PriceStats struct {
	Error     float64 // of late: |predicted − actual| / actual
	Steps     int64   // that were compared
	Trusted   bool    // good enough to plan by
	Predicted float64 // the last step's prediction, s
	Actual    float64 // and what it took, s
}

// PriceStats says how good predictions of this model's steps are; all is 0 where steps cannot be priced.
func (m *Model) PriceStats() PriceStats {
	if m.price == nil {
		return PriceStats{}
	}
	var s PriceStats
	s.Error, s.Steps = m.price.Error()
	s.Trusted = m.price.Trusted()
	s.Predicted, s.Actual = m.price.Last()
	return s
}
