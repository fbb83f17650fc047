package ridge

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
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

// stepPrice is the price of a model's steps: of a price.Model, or of several.
type stepPrice interface {
	Predict(*graph.Step) float64
	PredictShape(price.Shape) float64
	Explain(*graph.Step) [price.Causes]float64
	Floor(*graph.Step) float64
	Observe(s *graph.Step, seconds float64) (predicted float64)
	Error() (ratio float64, steps int64)
	Last() (predicted, actual float64)
	Late() float64
	Trusted() bool
}

// priced prices the steps of a program.
func (m *Model) priced(prog *loaded, p *price.Profile) (stepPrice, error) {
	if m.split != nil {
		all, err := m.split.prices()
		if err != nil {
			return nil, err
		}
		return all, nil
	}
	if prog.stages != nil {
		return stagePrices(prog.stages, p, prog.replicas)
	}
	one, err := price.New(prog.whole, p)
	if err != nil {
		return nil, err
	}
	return one, nil
}

// prices are those of parts that devices compute one after the other: a step takes their sum. Of what a step took, each part has as much as it was predicted to have.
type prices []*price.Model

// stagePrices are those of a layout's stages, each of one device with what it exchanges with the others: all devices of a stage compute at the same time. Of requests that replicas divide, a step lasts as
// long as its equal share on one of them.
func stagePrices(stages []*graph.Graph, p *price.Profile, replicas int) (stepPrice, error) {
	if p.Link == 0 {
		p = p.ThroughHost()
	}
	var all prices
	for _, g := range stages {
		one, err := price.New(g, p)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if replicas > 1 {
		return &replicaPrices{prices: all, replicas: replicas}, nil
	}
	return all, nil
}

// replicaPrices are those of devices that have requests of their own. A step is given with the requests of all.
type replicaPrices struct {
	prices
	replicas int
}

// share is the step of the device with most of a step's sequences, if they are divided equally: the first, and so on by as many as there are devices.
func (r *replicaPrices) share(s *graph.Step) *graph.Step {
	m := &graph.Step{Logits: (s.Logits + r.replicas - 1) / r.replicas, Devices: s.Devices}
	for i := 0; i < len(s.Seqs); i += r.replicas {
		m.Seqs = append(m.Seqs, s.Seqs[i])
	}
	for _, a := range s.Adapters {
		if a.Seq%r.replicas == 0 {
			a.Seq /= r.replicas
			m.Adapters = append(m.Adapters, a)
		}
	}
	return m
}

func (r *replicaPrices) Predict(s *graph.Step) float64 { return r.prices.Predict(r.share(s)) }

func (r *replicaPrices) Floor(s *graph.Step) float64 { return r.prices.Floor(r.share(s)) }

func (r *replicaPrices) Explain(s *graph.Step) [price.Causes]float64 {
	return r.prices.Explain(r.share(s))
}

func (r *replicaPrices) Observe(s *graph.Step, seconds float64) float64 {
	return r.prices.Observe(r.share(s), seconds)
}

func (r *replicaPrices) PredictShape(s price.Shape) float64 {
	each := func(n int) int { return (n + r.replicas - 1) / r.replicas }
	return r.prices.PredictShape(price.Shape{Tokens: each(s.Tokens), Logits: each(s.Logits), Drafts: each(s.Drafts), Rows: each(s.Rows), Pairs: each(s.Pairs)})
}

func (all prices) sum(of func(*price.Model) float64) (seconds float64) {
	for _, p := range all {
		seconds += of(p)
	}
	return seconds
}

func (all prices) Predict(s *graph.Step) float64 {
	return all.sum(func(p *price.Model) float64 { return p.Predict(s) })
}

func (all prices) PredictShape(s price.Shape) float64 {
	return all.sum(func(p *price.Model) float64 { return p.PredictShape(s) })
}

func (all prices) Floor(s *graph.Step) float64 {
	return all.sum(func(p *price.Model) float64 { return p.Floor(s) })
}

func (all prices) Explain(s *graph.Step) (by [price.Causes]float64) {
	for _, p := range all {
		for cause, seconds := range p.Explain(s) {
			by[cause] += seconds
		}
	}
	return by
}

func (all prices) Observe(s *graph.Step, seconds float64) (predicted float64) {
	whole := all.Predict(s)
	return all.sum(func(p *price.Model) float64 { return p.Observe(s, seconds*p.Predict(s)/whole) })
}

func (all prices) Last() (predicted, actual float64) {
	for _, p := range all {
		each, took := p.Last()
		predicted, actual = predicted+each, actual+took
	}
	return predicted, actual
}

// Error implements stepPrice: all parts have the same.
func (all prices) Error() (ratio float64, steps int64) { return all[0].Error() }

// Late implements stepPrice.
func (all prices) Late() float64 { return all[0].Late() }

// Trusted implements stepPrice.
func (all prices) Trusted() bool { return all[0].Trusted() }

// pricing is the engine's Predictor: the price of steps, corrected by those that ran; it observes as the Model does.
type pricing struct{ stepPrice }

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
