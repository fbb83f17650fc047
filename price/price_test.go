package price_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// graphFor is a model's graph as a device runs it.
func graphFor(t *testing.T, b *modeldir.Dir, p *price.Profile) *graph.Graph {
	t.Helper()
	g, err := b.Model.Graph(model.Options{Act: p.ActType(), Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Q8: p.Q8, BF16: p.RoundBF16}); err != nil {
		t.Fatal(err)
	}
	return g
}

func device(t *testing.T, name string) *price.Profile {
	t.Helper()
	p, err := price.Device(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// randomStep is a mixture of answers and prompts.
func randomStep(rnd *rand.Rand) *graph.Step {
	s := &graph.Step{}
	for range 1 + rnd.IntN(6) {
		q := graph.Seq{New: 1, Past: rnd.IntN(300)}
		if rnd.IntN(3) == 0 {
			q.New = 1 + rnd.IntN(90)
		}
		s.Seqs = append(s.Seqs, q)
	}
	s.Logits = rnd.IntN(len(s.Seqs) + 1)
	return s
}

// TestBreakdownIsDeclaredWork: the work on a breakdown, which is a sum of coefficients, is what every op declares for the step
// (which backend/ref's test holds equal to what it counts): every architecture, windows and all.
func TestBreakdownIsDeclaredWork(t *testing.T) {
	files, _ := filepath.Glob("../internal/check/testdata/*/config.json")
	large, _ := filepath.Glob("../../shared/reference/architectures/*/config.json")
	if len(files) == 0 {
		t.Fatal("the small models are missing")
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, file := range append(files, large...) {
		b, err := modeldir.Open(filepath.Dir(file))
		if err != nil {
			continue // an architecture that the registry does not have
		}
		for _, name := range []string{"zen4", "h200"} {
			g := graphFor(t, b, device(t, name))
			m, err := price.New(g, device(t, name))
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				s := randomStep(rnd)
				breakdown := m.Breakdown(s)
				for i, line := range breakdown.Lines {
					if want := g.Nodes[i].Op.Work(g.Nodes[i], s); line.Work != want {
						t.Fatalf("%s: %s in %+v:\npriced   %+v\ndeclared %+v", file, g.Nodes[i], *s, line.Work, want)
					}
				}
				if want := g.Work(s); breakdown.Work != want {
					t.Errorf("%s: the sum is %+v and not %+v", file, breakdown.Work, want)
				}
				checkBreakdown(t, breakdown)
			}
		}
		b.Close()
	}
}

// checkBreakdown: bytes by level are all the bytes, times add up, nothing is no number.
func checkBreakdown(t *testing.T, b *price.Breakdown) {
	t.Helper()
	var moved int64
	for i := range b.Read {
		moved += b.Read[i] + b.Write[i]
	}
	if moved != b.Work.Bytes() {
		t.Errorf("%d bytes by level, %d in all", moved, b.Work.Bytes())
	}
	sum := 0.0
	for _, by := range b.By {
		sum += by
	}
	if math.Abs(sum-b.Seconds) > 1e-9*b.Seconds || !(b.Seconds > 0) || !(b.Floor > 0) || math.IsInf(b.Seconds, 0) {
		t.Errorf("%g s by cause, %g s in all, floor %g s", sum, b.Seconds, b.Floor)
	}
	if b.Seconds < b.Floor {
		t.Errorf("a price of %g s under the floor of %g s", b.Seconds, b.Floor)
	}
}

// builtin is the built-in model priced on a device.
func builtin(t testing.TB, p *price.Profile) (*graph.Graph, *price.Model) {
	t.Helper()
	b, err := modeldir.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	g, err := b.Model.Graph(model.Options{Act: p.ActType(), Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Q8: p.Q8}); err != nil {
		t.Fatal(err)
	}
	m, err := price.New(g, p)
	if err != nil {
		t.Fatal(err)
	}
	return g, m
}

// TestFourBits: weights in INT4 have no curve of their own, and are priced as the same kernels with Q4_0 are.
func TestFourBits(t *testing.T) {
	p := *device(t, "h200")
	b := graph.NewBuilder("test", testkit.Lookup, p.ActType(), graph.F16)
	axis := graph.Axis{Name: "a", Count: 4096, Size: 1}
	g, err := b.Finish(b.Linear("y", b.SelectRows("selected", b.Embed("x", b.Weight("embd", axis, axis), 0)), b.Weight("w/INT4", axis, axis), nil))
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(curves map[string]price.Curve) float64 {
		fit := *price.Roof()
		fit.Linear = curves
		p.Fit = &fit
		m, err := price.New(g, &p)
		if err != nil {
			t.Fatal(err)
		}
		return m.Predict(&graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 1}}})
	}
	slow := price.Curve{Memory: 50, Points: []price.Point{{Rows: 1, Small: 1, Large: 1}}}
	fast := price.Curve{Memory: 1, Points: slow.Points}
	as, other := seconds(map[string]price.Curve{"": fast, "Q4_0": slow}), seconds(map[string]price.Curve{"": slow, "Q4_0": fast})
	if as < 10*other || seconds(map[string]price.Curve{"": slow}) < 10*other {
		t.Errorf("as Q4_0 it takes %g s, not as Q4_0 %g s", as, other)
	}
}

// TestSparse: what 2:4 weights do not store costs no arithmetic on a GPU whose kernels leave it out, at the roofline half of it, and is multiplied elsewhere.
func TestSparse(t *testing.T) {
	for name, c := range map[string]struct{ roof, low, high float64 }{"h200": {2, 1.2, 1.6}, "a100-80gb": {1, 0.9, 1.1}} {
		seconds := func(format string, fit *price.Fit) float64 {
			p := *device(t, name)
			p.Fit = fit
			b := graph.NewBuilder("test", testkit.Lookup, p.ActType(), graph.F16)
			axis := graph.Axis{Name: "a", Count: 8192, Size: 1}
			g, err := b.Finish(b.Linear("y", b.Embed("x", b.Weight("embd", axis, axis), 0), b.Weight("w/"+format, axis, axis), nil))
			if err != nil {
				t.Fatal(err)
			}
			m, err := price.New(g, &p)
			if err != nil {
				t.Fatal(err)
			}
			return m.Predict(&graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 8192}}})
		}
		if gain := seconds("BF16", price.Roof()) / seconds("BF16_2_4", price.Roof()); math.Abs(gain-c.roof) > 0.15 { // the rows of x cost something too
			t.Errorf("%s: at the roofline sparse weights are %.2f times as fast, and should be %g", name, gain, c.roof)
		}
		if gain := seconds("BF16", nil) / seconds("BF16_2_4", nil); gain < c.low || gain > c.high {
			t.Errorf("%s: sparse weights are %.2f times as fast", name, gain)
		}
	}
}

// TestPredict: a prediction is the breakdown's sum, from a step and from a scheduler's shape of it, and allocates nothing.
func TestPredict(t *testing.T) {
	_, m := builtin(t, device(t, "zen4"))
	s := &graph.Step{Logits: 3, Seqs: []graph.Seq{{New: 1, Past: 100}, {New: 1, Past: 7}, {New: 64, Past: 16}}}
	want := m.Breakdown(s).Seconds
	if got := m.Predict(s); math.Abs(got-want) > 1e-9*want {
		t.Errorf("predicted %g s, the breakdown says %g s", got, want)
	}
	shape := price.Shape{Tokens: 66, Logits: 3, Rows: int(s.CtxRows(0)), Pairs: int(s.Pairs(0))}
	if got := m.PredictShape(shape); math.Abs(got-want) > 1e-9*want {
		t.Errorf("predicted %g s of the shape, the breakdown says %g s", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { m.Predict(s); m.PredictShape(shape); m.Observe(s, want) }); n != 0 {
		t.Errorf("a prediction allocates %g times", n)
	}
}

// TestPredictDrafts: steps that verify drafts are no steps of decoding, which a GPU replays: what is learned of one is not taken for the other.
func TestPredictDrafts(t *testing.T) {
	p := *device(t, "h200")
	p.Replays, p.Fit = true, price.Typical(&p)
	p.Fit.Step, p.Fit.ReplayStep, p.Fit.Replay = 200e-6, 20e-6, 0.3
	_, m := builtin(t, &p)
	s := &graph.Step{Logits: 12, Seqs: []graph.Seq{{New: 6, Past: 100}, {New: 6, Past: 100}}}
	shape := price.Shape{Tokens: 12, Logits: 12, Drafts: 10, Rows: int(s.CtxRows(0)), Pairs: int(s.Pairs(0))}
	for range 30 {
		m.Observe(s, 3*m.Predict(s))
	}
	want := m.Predict(s)
	if got := m.PredictShape(shape); math.Abs(got-want) > 1e-9*want {
		t.Errorf("predicted %g s of the shape of two drafts, and %g s of the step", got, want)
	}
	decoding := price.Shape{Tokens: 12, Logits: 12, Rows: shape.Rows, Pairs: shape.Rows}
	if got := m.PredictShape(decoding); got > want/2 {
		t.Errorf("predicted %g s of 12 sequences that decode, after steps with drafts that took %g s", got, want)
	}
}

// TestObserve: a device that is slower than its profile in one kind of work is found out, and predicted in steps of
// another mixture than those that were seen.
func TestObserve(t *testing.T) {
	_, m := builtin(t, device(t, "zen4"))
	_, slow := builtin(t, device(t, "zen4"))
	truth := func(s *graph.Step) float64 {
		breakdown, sum := slow.Breakdown(s), 0.0
		for _, l := range breakdown.Lines {
			switch l.Class {
			case price.Linear:
				sum += 1.6 * l.Seconds
			case price.Attention:
				sum += 0.7 * l.Seconds
			default:
				sum += 1.2 * l.Seconds
			}
		}
		return sum + breakdown.Host
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 600 {
		s := randomStep(rnd)
		m.Observe(s, truth(s)*(1+0.05*rnd.NormFloat64()))
	}
	late := m.Late()
	if late < 0.02 || late > 0.25 { // times were given a standard deviation of 5 %
		t.Errorf("the slowest hundredth of steps is said to take %.0f %% longer", 100*late)
	}
	m.Observe(randomStep(rnd), 10) // a machine that was asleep
	if asleep := m.Late(); asleep < late+0.2 {
		t.Errorf("right after a pause steps are expected %.0f %% late, before it %.0f %%", 100*asleep, 100*late)
	}
	held := &graph.Step{Logits: 8, Seqs: []graph.Seq{{New: 200, Past: 2000}, {New: 1, Past: 4000}}}
	if got, want := m.Predict(held), truth(held); math.Abs(got-want) > 0.1*want {
		t.Errorf("predicted %g s after learning, %g s is right", got, want)
	}
	if ratio, steps := m.Error(); steps != 601 || ratio > 0.2 || !m.Trusted() {
		t.Errorf("error %g after %d steps", ratio, steps)
	}
	for range 200 {
		m.Observe(held, rnd.ExpFloat64()*truth(held))
	}
	if ratio, _ := m.Error(); m.Trusted() {
		t.Errorf("times at random are trusted, with an error of %g", ratio)
	}
}

func BenchmarkPredict(b *testing.B) {
	p, err := price.Device("zen4")
	if err != nil {
		b.Fatal(err)
	}
	_, m := builtin(b, p)
	s := &graph.Step{Logits: 64}
	for i := range 64 {
		s.Seqs = append(s.Seqs, graph.Seq{New: 1, Past: 10 * i})
	}
	for b.Loop() {
		m.Predict(s)
	}
}

// TestBound: decoding one answer waits for weights, a long prompt for arithmetic, and several devices for each other when
// they talk too much.
func TestBound(t *testing.T) {
	roof := *device(t, "h200")
	roof.Fit = price.Roof()
	_, m := builtin(t, &roof)
	decode := m.Breakdown(&graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 1, Past: 500}}})
	if decode.Bound() != price.Memory || decode.By[price.ByWeights] == 0 {
		t.Errorf("decoding waits for %s: %v", decode.Bound(), decode.By)
	}
	slow := roof
	slow.FLOPs = map[price.Number]float64{price.F32: 1e9, price.BF16: 1e9}
	_, m = builtin(t, &slow)
	prompt := m.Breakdown(&graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 4000}}})
	if prompt.Bound() != price.Compute {
		t.Errorf("a prompt waits for %s: %v", prompt.Bound(), prompt.By)
	}
	if prompt.By[price.ByCommunication] = 2 * prompt.Seconds; prompt.Bound() != price.Communication {
		t.Errorf("after twice the time on the link it waits for %s", prompt.Bound())
	}
}

// TestScoreTraffic: attention that keeps its scores in memory moves each four times for every head, and the breakdown still adds up.
func TestScoreTraffic(t *testing.T) {
	g, m := builtin(t, device(t, "zen4"))
	s := &graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 100, Past: 50}}}
	tiled, naive := m.Breakdown(s), m.Breakdown(s)
	m.AddScoreTraffic(naive, s)
	want := int64(len(g.Caches)) * 4 * s.Pairs(0) * 4 * 4 // layers, heads, pairs, bytes, passes
	if got := naive.Work.Bytes() - tiled.Work.Bytes(); got != want {
		t.Errorf("%d bytes more, %d are right", got, want)
	}
	checkBreakdown(t, naive)
}

// TestExplainIsPredict: what a step is explained by adds up to what is predicted, before and after learning.
func TestExplainIsPredict(t *testing.T) {
	_, m := builtin(t, device(t, "zen4"))
	s := &graph.Step{Logits: 2, Seqs: []graph.Seq{{New: 1, Past: 400}, {New: 30, Past: 16}}}
	for range 2 {
		sum := 0.0
		for _, by := range m.Explain(s) {
			sum += by
		}
		if want := m.Predict(s); math.Abs(sum-want) > 1e-9*want {
			t.Errorf("explained %g s, predicted %g s", sum, want)
		}
		if floor, want := m.Floor(s), m.Breakdown(s).Floor; math.Abs(floor-want) > 1e-9*want {
			t.Errorf("a floor of %g s, the breakdown's is %g s", floor, want)
		}
		m.Observe(s, 3*m.Predict(s))
	}
}

// TestLearnAtOnce: factors that fit a recording as a whole do not end with its last mood, as Observe's do, nor follow pauses: half of the
// steps take longer than predicted.
func TestLearnAtOnce(t *testing.T) {
	_, m := builtin(t, device(t, "zen4"))
	_, truth := builtin(t, device(t, "zen4"))
	rnd := rand.New(rand.NewPCG(5, 6))
	var steps []graph.Step
	var took []float64
	for i := range 300 {
		s := randomStep(rnd)
		seconds := 1.5 * truth.Predict(s)
		switch {
		case i >= 250:
			seconds *= 1.3 // a machine that gets slow towards the end
		case i%20 == 0:
			seconds *= 5 // and pauses
		}
		steps, took = append(steps, *s), append(took, seconds)
	}
	m.Observe(&steps[0], 10*took[0]) // is forgotten
	m.Learn(steps, took)
	longer := 0
	for i := range steps {
		if took[i] > m.Predict(&steps[i])*1.001 {
			longer++
		}
		if got := m.Predict(&steps[i]) / truth.Predict(&steps[i]); got < 1.45 || got > 1.55 {
			t.Fatalf("step %d is predicted at %.2f times the profile's price; most took 1.5 times", i, got)
		}
	}
	if longer > len(steps)/2 {
		t.Errorf("%d of %d steps took longer than predicted", longer, len(steps))
	}
	before := m.Predict(&steps[0])
	m.Learn(nil, nil)
	if got, want := m.Predict(&steps[0]), truth.Predict(&steps[0]); math.Abs(got-want) > 1e-9*want || before == got {
		t.Errorf("after learning from nothing %g s, the profile says %g s", got, want)
	}
}
