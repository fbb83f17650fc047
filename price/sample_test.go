package price_test

import (
	"math"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// TestFitSamples: from times that obey the formulas the coefficients come back, near enough to predict other steps.
func TestFitSamples(t *testing.T) {
	roof := *device(t, "zen4")
	roof.Levels = []price.Level{{Name: "L2", Bytes: 1 << 30, Rate: 2e12}, {Name: "DDR5", Bytes: 1 << 40, Rate: 4e11}}
	truth := roof
	truth.Fit = &price.Fit{
		Linear:    map[string]price.Curve{"": {Launch: 3e-7, Memory: 1.2, Points: []price.Point{{Rows: 1, Small: 90, Large: 90}, {Rows: 512, Small: 40, Large: 40}}}},
		Attention: price.Coef{Launch: 3e-6, Compute: 2.5, Memory: 1.5, Values: 4},
		Rows:      map[string]price.Coef{"": {Launch: 1e-6, Compute: 8, Memory: 1.1}},
	}
	g, real := builtin(t, &truth)
	var samples []price.Sample
	var timed []price.TimedStep
	for _, q := range []graph.Seq{{New: 1}, {New: 1, Past: 3000}, {New: 8}, {New: 64, Past: 100}, {New: 300}, {New: 300, Past: 3000}} {
		s := &graph.Step{Logits: 1, Seqs: []graph.Seq{q}}
		bill := real.Bill(s)
		for _, l := range bill.Lines {
			samples = append(samples, price.Sample{Node: l.Node, Step: s, Set: g.Work(s).WeightBytes + g.Work(s).CacheRead, Seconds: l.Seconds})
		}
		timed = append(timed, price.TimedStep{Step: s, Seconds: bill.Seconds - 0.4*bill.By[price.ByLaunch] + 5e-5})
	}
	fitted := roof
	var err error
	if fitted.Fit, err = fitted.FitSamples(samples); err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		got, err := fitted.PredictSample(s)
		if err != nil || math.Abs(got-s.Seconds) > 0.25*s.Seconds {
			t.Fatalf("%s in %+v: %g s after the fit, %g s is right; %v", s.Node, s.Step.Seqs, got, s.Seconds, err)
		}
	}
	if err := fitted.FitSteps(g, timed); err != nil {
		t.Fatal(err)
	}
	if err := fitted.Validate(); err != nil {
		t.Error(err)
	}
	m, err := price.New(g, &fitted)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range timed {
		if got := m.Predict(s.Step); math.Abs(got-s.Seconds) > 0.12*s.Seconds {
			t.Errorf("step %+v: %g s after the fit, %g s is right", s.Step.Seqs, got, s.Seconds)
		}
	}
}
