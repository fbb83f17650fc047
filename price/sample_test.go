package price_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
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
		breakdown := real.Breakdown(s)
		for _, l := range breakdown.Lines {
			samples = append(samples, price.Sample{Node: l.Node, Step: s, Set: g.Work(s).WeightBytes + g.Work(s).CacheRead, Seconds: l.Seconds})
		}
		timed = append(timed, price.TimedStep{Step: s, Seconds: breakdown.Seconds - 0.4*breakdown.By[price.ByLaunch] + 5e-5})
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
	// A clock that was disturbed says nothing.
	broken := samples[len(samples)-1]
	broken.Seconds = 1e-12
	again, err := roof.FitSamples(append(samples, broken))
	if err != nil || !reflect.DeepEqual(again, fitted.Fit) {
		t.Errorf("an impossible sample makes the fit %+v, %v", again, err)
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

// TestFused: operations that one node computes pay for one launch, and what stays within the node is neither written nor read; a device
// that replays steps of decoding pays less in those.
func TestFused(t *testing.T) {
	p := *device(t, "h200")
	g, apart := builtin(t, &p)
	kernels := only(graph.LinearGroup)
	fused, err := pass.Fuse(g, pass.Options{Kernels: kernels})
	if err != nil {
		t.Fatal(err)
	}
	together, err := price.New(fused, &p)
	if err != nil {
		t.Fatal(err)
	}
	decode := &graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 1, Past: 500}}}
	a, b := apart.Breakdown(decode), together.Breakdown(decode)
	launch := 0.0
	for _, l := range a.Lines {
		if l.Class == price.Linear {
			launch = l.Launch
		}
	}
	saved, fewer := a.By[price.ByLaunch]-b.By[price.ByLaunch], float64(len(g.Nodes)-len(fused.Nodes))
	if fewer < 2 || math.Abs(saved-fewer*launch) > 1e-6*launch {
		t.Errorf("%g launches fewer of %g s save %g s", fewer, launch, saved)
	}
	if want := fused.Work(decode); b.Work != want || want.ValueRead >= a.Work.ValueRead || want.FLOPs != a.Work.FLOPs {
		t.Errorf("the fused graph is priced as %+v, declares %+v and was %+v", b.Work, want, a.Work)
	}
	p.Replays, p.Fit = true, price.Typical(&p)
	p.Fit.Replay, p.Fit.ReplayStep = 0.25, 1e-3
	replayed, err := price.New(fused, &p)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := replayed.Predict(decode), b.Seconds-0.75*b.By[price.ByLaunch]+1e-3; math.Abs(got-want) > 1e-9 {
		t.Errorf("a replayed step takes %g s; %g s are right", got, want)
	}
	prompt := &graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 50}}}
	if got, want := replayed.Predict(prompt), together.Predict(prompt); math.Abs(got-want) > 1e-9*want {
		t.Errorf("a prompt, which is not replayed, takes %g s and not %g s", got, want)
	}
}

// only is a device that computes one kind of fused ops.
type only graph.Kind

func (k only) Has(n *graph.Node) bool {
	o, ok := n.Op.(*graph.Fused)
	return ok && o.Kind == graph.Kind(k)
}

func (only) NormRows(*graph.Node) int { return 0 }

// TestFitReplays: of a device that replays, steps of decoding and others are fitted by themselves.
func TestFitReplays(t *testing.T) {
	p := *device(t, "h200")
	p.Replays, p.Fit = true, price.Typical(&p)
	p.Fit.Replay, p.Fit.ReplayStep, p.Fit.Step = 0.3, 2e-5, 5e-5
	g, real := builtin(t, &p)
	var timed []price.TimedStep
	for _, s := range []graph.Step{
		{Logits: 1, Seqs: []graph.Seq{{New: 1, Past: 9}}}, {Logits: 3, Seqs: []graph.Seq{{New: 1, Past: 9}, {New: 1}, {New: 1, Past: 3000}}},
		{Logits: 1, Seqs: []graph.Seq{{New: 10}}}, {Logits: 1, Seqs: []graph.Seq{{New: 500, Past: 100}}},
	} {
		timed = append(timed, price.TimedStep{Step: &s, Seconds: real.Predict(&s)})
	}
	fitted := p
	fitted.Fit = price.Typical(&p)
	if err := fitted.FitSteps(g, timed); err != nil {
		t.Fatal(err)
	}
	m, err := price.New(g, &fitted)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range timed {
		if got := m.Predict(s.Step); math.Abs(got-s.Seconds) > 0.02*s.Seconds {
			t.Errorf("step %+v: %g s after the fit, %g s is right", s.Step.Seqs, got, s.Seconds)
		}
	}
}

// TestRowTiles: a product of rows between two tiles takes as long as one of the larger, and only products do.
func TestRowTiles(t *testing.T) {
	p := *device(t, "h200")
	p.Fit = price.Roof()
	_, exact := builtin(t, &p)
	p.RowTiles = []int{1, 8, 64, 128}
	_, tiled := builtin(t, &p)
	for rows, whole := range map[int]int{1: 1, 5: 8, 64: 64, 65: 128, 128: 128, 129: 256, 300: 384} {
		step := func(n int) *graph.Step { return &graph.Step{Seqs: []graph.Seq{{New: n}}} }
		got, want := tiled.Breakdown(step(rows)), exact.Breakdown(step(whole))
		for i, l := range got.Lines {
			compute := float64(want.Lines[i].Work.FLOPs) / p.FLOPs[l.Number]
			if l.Class == price.Linear && l.Node.Out[0].Rows == graph.Tokens && l.Seconds < compute {
				t.Errorf("%d rows of %s take %g s, less than the arithmetic of %d rows, %g s", rows, l.Node, l.Seconds, whole, compute)
			}
			if same := exact.Breakdown(step(rows)).Lines[i].Seconds; l.Class != price.Linear && l.Seconds != same {
				t.Errorf("%d rows of %s take %g s instead of %g s", rows, l.Node, l.Seconds, same)
			}
		}
	}
}
