package engine

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/predict"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
)

// fives is a drafter of token 5, all that an idleSampler samples, for some requests.
type fives struct {
	of     func(id int64) bool
	asked  int
	tokens []int32
}

func (d *fives) Name() string             { return "fives" }
func (d *fives) Seconds(int, int) float64 { return 0 }
func (d *fives) Forget(int64, []int32)    {}
func (d *fives) Close() error             { return nil }
func (d *fives) Concurrent() bool         { return true }
func (d *fives) Propose(s []draft.Sequence) error {
	for len(d.tokens) < draft.MaxTokens {
		d.tokens = append(d.tokens, 5)
	}
	d.asked++
	for i := range s {
		if s[i].Draft = (draft.Draft{}); d.of(s[i].ID) {
			s[i].Draft.Tokens = d.tokens[:s[i].Max]
		}
	}
	return nil
}

// perToken is a Predictor by which steps take a time for each of their tokens, so that drafts are not worth it.
type perToken struct{}

func (perToken) Predict(s sched.Shape) float64        { return float64(s.Tokens) }
func (perToken) Observe(*graph.Step, float64) float64 { return 0 }

// fickle is a Predictor by which steps take any time, so that all decisions come.
type fickle struct{ random *rand.Rand }

func (f fickle) Predict(sched.Shape) float64        { return 0.001 + f.random.Float64() }
func (fickle) Observe(*graph.Step, float64) float64 { return 0 }

// apartCount counts the requests that wait apart.
type apartCount struct {
	unrecorded
	apart, batch int
}

func (c *apartCount) Waits(_ int64, _ int, how Wait) {
	if how == WaitApart {
		c.apart++
	} else {
		c.batch++
	}
}

// testLimits are those of a program with room for so many requests of 1,000 tokens, and for drafts.
func testLimits(requests int) backend.Limits {
	return backend.Limits{Tokens: 128, Seqs: requests, Logits: 8 * requests, PageSize: 16, SeqPages: 64, Pages: 64 * requests}
}

// drafting is an engine with requests on an idleSampler.
func drafting(t testing.TB, dev backend.Device, requests int, o Options) *stepped {
	t.Helper()
	e := on(t, dev, testLimits(requests), o)
	for i := range requests {
		if err := e.Submit(context.Background(), greedy([]int32{int32(10 + i), 20, 30}, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	e.admit()
	return e
}

// TestRunAheadWithoutDrafts: where drafts are not worth their price, or the drafter has nothing to say, steps are launched ahead as without a
// drafter, but for those that try it now and then; and nothing is allocated for them.
func TestRunAheadWithoutDrafts(t *testing.T) {
	const requests, steps = 8, 320
	for name, c := range map[string]struct {
		drafter *fives
		price   predict.Predictor
		first   int // steps that may wait in the beginning
		waiting int // of all
	}{
		"dear":   {&fives{of: func(int64) bool { return true }}, perToken{}, 1, 3 + 3*steps/tryAfter},
		"silent": {&fives{of: func(int64) bool { return false }}, dear{}, 1 + engaged, 3 + engaged + steps/probe},
	} {
		t.Run(name, func(t *testing.T) {
			e := drafting(t, idleSampler{idle{ref.New()}}, requests, Options{Predictor: c.price, Speculation: Speculation{Drafter: c.drafter, Tokens: 4}})
			waiting := 0
			for n := range steps {
				if mustStep(t, e); e.current == nil {
					if waiting++; n > c.first && n < 15 {
						t.Errorf("step %d was not launched ahead", n)
					}
				}
			}
			if waiting > c.waiting {
				t.Errorf("%d of %d steps were not launched ahead; at most %d should not have been", waiting, steps, c.waiting)
			}
			if c.drafter.asked == 0 {
				t.Error("the drafter was never asked")
			}
			var most float64
			for range 10 { // some try
				got := testing.AllocsPerRun(3, func() {
					if err := e.step(); err != nil {
						t.Fatal(err)
					}
					e.publish()
				})
				most = max(most, got)
			}
			if most != 0 {
				t.Errorf("a step allocates up to %v times", most)
			}
		})
	}
}

// TestDraftsApart: where waiting costs the others more than it brings, requests that are drafted for wait apart: all others have a row in every
// step, each of which is launched ahead, and those have their drafts in every other step.
func TestDraftsApart(t *testing.T) {
	const requests, drafted, steps = 8, 2, 60
	d := &fives{of: func(id int64) bool { return id < drafted }}
	count := &apartCount{}
	e := drafting(t, idleSampler{idle{ref.New()}}, requests, Options{Predictor: dear{}, Recorder: count, Speculation: Speculation{Drafter: d, Tokens: 4}})
	for range 2 * engaged {
		e.meter.gap = 0.9
		mustStep(t, e)
	}
	length := func(id int64) int { return len(e.queue.byID[id].tokens) }
	before, other := length(0), length(drafted)
	for n := range steps {
		e.meter.gap = 0.9
		if mustStep(t, e); e.current == nil {
			if e.speculation.waits.steps%probe != 0 {
				t.Fatalf("step %d was not launched ahead", n)
			}
			continue
		}
		rows := 0
		for _, a := range e.current.requests {
			if a.request.sched.ID >= drafted {
				rows += a.rows
			}
		}
		if rows != requests-drafted {
			t.Fatalf("the step that was launched ahead has %d rows of the %d requests that are not drafted for", rows, requests-drafted)
		}
	}
	if got := length(0) - before; got < 2*steps {
		t.Errorf("a request that is drafted for got %d tokens in %d steps", got, steps)
	}
	if got := length(drafted) - other; got < steps-1 {
		t.Errorf("one that is not got %d", got)
	}
	if count.apart < steps*drafted/2-2*drafted {
		t.Errorf("requests waited apart %d times, and the others with them %d times", count.apart, count.batch)
	}
}

// paced is an idleSampler whose steps take a time of a clock of their own, one after the other.
type paced struct {
	idleSampler
	step   time.Duration
	now    *time.Time
	starts *[]time.Time // of the steps in flight
	done   *time.Time   // the step collected last
}

func (p paced) Sample(*graph.Value, backend.Buffer, []sampling.Sample) error {
	*p.starts = append(*p.starts, *p.now)
	return nil
}

func (p paced) SampleResults(dst []sampling.Result) (time.Duration, error) {
	began := (*p.starts)[0]
	*p.starts = (*p.starts)[1:]
	if p.done.After(began) {
		began = *p.done
	}
	if *p.done = began.Add(p.step); p.now.Before(*p.done) {
		*p.now = *p.done
	}
	_, err := p.idleSampler.SampleResults(dst)
	return p.step, err
}

// flat is a Predictor by which every step takes a paced device's time.
type flat time.Duration

func (f flat) Predict(sched.Shape) float64          { return time.Duration(f).Seconds() }
func (f flat) Observe(*graph.Step, float64) float64 { return time.Duration(f).Seconds() }

// rates is how many tokens a millisecond brings all of 32 requests, and one that is not drafted for, on a device that takes a millisecond for a step, where each
// token takes the host 5 µs.
func rates(t *testing.T, d draft.Drafter, price predict.Predictor) (all, one float64) {
	const requests, each, steps, ms = 32, 5 * time.Microsecond, 600, time.Millisecond
	var starts []time.Time
	now := time.Unix(1e9, 0)
	done := now
	o := Options{Predictor: price, Clock: func() time.Time { return now }}
	if d != nil {
		o.Speculation = Speculation{Drafter: d, Tokens: 4}
	}
	lim := backend.Limits{Tokens: 256, Seqs: requests, Logits: 8 * requests, PageSize: 16, SeqPages: 256, Pages: 256 * requests}
	e := on(t, paced{idleSampler{idle{ref.New()}}, ms, &now, &starts, &done}, lim, o)
	for i := range requests {
		r := greedy([]int32{int32(10 + i), 20, 30}, 4000)
		r.Emit = func(sample.Choice) bool { now = now.Add(each); return false }
		if err := e.Submit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	e.admit()
	for range 100 {
		mustStep(t, e)
	}
	last := e.queue.byID[requests-1]
	began, before, mine := now, e.meter.stats.Output, len(last.tokens)
	for range steps {
		mustStep(t, e)
	}
	took := float64(now.Sub(began)) / float64(ms)
	return float64(e.meter.stats.Output-before) / took, float64(len(last.tokens)-mine) / took
}

// TestRunAheadBesideDrafts: with a drafter whose drafts are not worth it, or that has nothing to say, tokens come at the rate without; and where two
// requests are drafted for, all others' do too.
func TestRunAheadBesideDrafts(t *testing.T) {
	if testing.Short() {
		t.Skip("rates are those of virtual time, of which the race detector sees nothing new")
	}
	const ms = flat(time.Millisecond)
	all, one := rates(t, nil, ms)
	t.Logf("without a drafter: %.2f tokens/ms, %.3f for one request", all, one)
	for _, c := range []struct {
		name  string
		of    func(int64) bool
		price predict.Predictor
		least float64 // of the rate of a request that is not drafted for
	}{
		{"not worth it", func(int64) bool { return true }, perToken{}, 0.99},
		{"silent", func(int64) bool { return false }, ms, 0.985},
		{"two of 32", func(id int64) bool { return id < 2 }, ms, 0.98},
	} {
		gotAll, gotOne := rates(t, &fives{of: c.of}, c.price)
		t.Logf("%s: %.2f tokens/ms (%.3f), %.3f for a request that is not drafted for (%.3f)", c.name, gotAll, gotAll/all, gotOne, gotOne/one)
		if gotOne < c.least*one || gotAll < c.least*all {
			t.Errorf("%s: tokens come at %.3f of the rate without a drafter, those of a request that is not drafted for at %.3f", c.name, gotAll/all, gotOne/one)
		}
	}
}
