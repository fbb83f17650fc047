package simulate

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/trace"
)

// limits are of a small server: 8 requests of 1,024 tokens, steps of 256.
var limits = backend.Limits{Tokens: 256, Seqs: 8, Logits: 8, Pages: 512, PageSize: 16, SeqPages: 64}

// millis costs a step 10 ms and each of its tokens 1 ms.
func millis(s *graph.Step) float64 { return 0.010 + 0.001*float64(s.Tokens()) }

func spec(t testing.TB, text string) *trace.Trace {
	t.Helper()
	tr, err := trace.Spec(text)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func run(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOneRequest: a prompt of 600 tokens takes three steps, every further token one.
func TestOneRequest(t *testing.T) {
	r := run(t, Options{Trace: spec(t, "constant:rate=1,n=1,in=600,out=5"), Limits: limits, Cost: millis})
	x := r.Report.Records[0]
	if want := 630 * time.Millisecond; x.TTFT != want || x.Output != 5 || x.Input != 600 || x.Err != nil {
		t.Errorf("%+v, and the first token is due after %v", x, want)
	}
	for _, g := range x.Gaps {
		if g != 11*time.Millisecond {
			t.Errorf("a token came after %v; a step of one takes 11 ms", g)
		}
	}
	if s := r.Stats; s.Steps != 7 || s.Computed != 604 || math.Abs(r.Busy-1) > 1e-9 {
		t.Errorf("%d steps of %d tokens, busy %.3f", s.Steps, s.Computed, r.Busy)
	}
}

// TestTimeOfArrival: a request that comes when nothing is under way starts at its time, and one that comes while a step
// runs waits for its end, which counts.
func TestTimeOfArrival(t *testing.T) {
	tr := &trace.Trace{Name: "two", Requests: []trace.Request{{Input: 90, Output: 1}, {At: 5 * time.Second, Input: 90, Output: 1}, {At: 5*time.Second + 40*time.Millisecond, Input: 10, Output: 1}}}
	r := run(t, Options{Trace: tr, Limits: limits, Cost: millis})
	for i, want := range []time.Duration{100, 100, 80} {
		at := []time.Duration{0, 5000, 5040}[i]
		x := r.Report.Records[i]
		if x.At != at*time.Millisecond || x.TTFT != want*time.Millisecond {
			t.Errorf("request %d came at %v and had its token after %v; %v ms and %v ms are right", i, x.At, x.TTFT, at, want)
		}
	}
}

// TestSameEveryTime: a crowded simulation gives the same times, down to the nanosecond.
func TestSameEveryTime(t *testing.T) {
	for _, policy := range []string{"fcfs", "longest-prefix"} {
		o := Options{Trace: spec(t, "gamma:rate=3,n=120,in=50-400,out=1-80"), Limits: limits, Cost: millis}
		o.Engine.Policy, o.Limits.Pages = "fcfs", 90
		if policy != "fcfs" {
			o.Engine.Policy = "longest-prefix"
		}
		a, b := run(t, o), run(t, o)
		if !reflect.DeepEqual(a.Report.Records, b.Report.Records) {
			t.Errorf("%s: two runs differ", policy)
		}
		if a.Stats.Preemptions == 0 {
			t.Errorf("%s: nothing was preempted with 90 pages, so this shows little", policy)
		}
		for i, x := range a.Report.Records {
			if q := o.Trace.Requests[i]; x.Err != nil || x.Output != q.Output || x.Input != q.Input {
				t.Fatalf("%s: request %d of %d + %d tokens: %+v", policy, i, q.Input, q.Output, x)
			}
		}
	}
}

// TestSharedPrefix: the beginning that all share is computed once.
func TestSharedPrefix(t *testing.T) {
	tr := spec(t, "poisson:rate=1,n=30,in=200,out=10")
	alone := run(t, Options{Trace: tr, Limits: limits, Cost: millis})
	tr.Shared = 160
	shared := run(t, Options{Trace: tr, Limits: limits, Cost: millis})
	if alone.Report.Cached != 0 {
		t.Errorf("%d tokens were found that no request had computed", alone.Report.Cached)
	}
	if saved := alone.Stats.Computed - shared.Stats.Computed; saved != 29*160 {
		t.Errorf("%d tokens were not computed again; 29 times 160 is right", saved)
	}
	if shared.Report.TTFT.Mean >= alone.Report.TTFT.Mean {
		t.Errorf("first tokens take %.1f ms with a shared beginning and %.1f ms without", shared.Report.TTFT.Mean, alone.Report.TTFT.Mean)
	}
}

// TestHybrid: a model whose states are in a group of their own finds the beginning that prompts share from the third request on: the first computes
// it, and the second leaves the state where they part.
func TestHybrid(t *testing.T) {
	hybrid := limits
	hybrid.Groups = []backend.GroupLimits{{Pages: 18, Recurrent: true}, {Pages: limits.Pages}}
	tr := spec(t, "constant:rate=1,n=5,in=200,out=4")
	tr.Shared = 160
	r := run(t, Options{Trace: tr, Limits: hybrid, Cost: millis})
	if s := r.Stats; s.Found != 3*160 || s.Stranded != 160 {
		t.Errorf("%d tokens were found, and %d known without a state; %d and %d are right", s.Found, s.Stranded, 3*160, 160)
	}
}

// TestClosedLoop: as many requests as asked for are under way, whatever the trace's times.
func TestClosedLoop(t *testing.T) {
	r := run(t, Options{Trace: spec(t, "constant:rate=0.01,n=40,in=100,out=20"), Concurrency: 4, Limits: limits, Cost: millis})
	if r.Report.Completed != 40 || r.Report.Seconds > 60 {
		t.Errorf("%d requests in %.1f s", r.Report.Completed, r.Report.Seconds)
	}
	var under []int
	for _, x := range r.Report.Records {
		n := 0
		for _, y := range r.Report.Records {
			if y.At <= x.At && x.At < y.At+y.E2E {
				n++
			}
		}
		under = append(under, n)
	}
	for i, n := range under {
		if n > 4 {
			t.Errorf("%d requests are under way when request %d is sent", n, i)
		}
	}
}

// TestRefused: what can never run is counted as lost, first or last, and the others are served.
func TestRefused(t *testing.T) {
	for _, first := range []bool{true, false} {
		tr := spec(t, "constant:rate=10,n=5,in=100,out=5")
		at := 4
		if first {
			at = 0
		}
		tr.Requests[at].Input = 5000
		r := run(t, Options{Trace: tr, Limits: limits, Cost: millis})
		if r.Report.Completed != 4 || r.Report.Errors["refused"] != 1 || !strings.Contains(r.Report.Example, "5000 tokens") {
			t.Errorf("%d answered, errors %v, %q", r.Report.Completed, r.Report.Errors, r.Report.Example)
		}
	}
}

// TestBadPrices end in an error, not in time that runs backwards.
func TestBadPrices(t *testing.T) {
	for _, seconds := range []float64{math.NaN(), -1, math.Inf(1)} {
		r, err := Run(Options{Trace: spec(t, "constant:rate=1,n=2,in=10,out=2"), Limits: limits, Cost: func(*graph.Step) float64 { return seconds }})
		if err == nil && r.Report.Completed > 0 {
			t.Errorf("%d requests were answered by steps of %g s", r.Report.Completed, seconds)
		}
	}
	if _, err := Run(Options{Trace: &trace.Trace{}, Limits: limits, Cost: millis}); err == nil {
		t.Error("an empty trace is simulated")
	}
	if _, err := Run(Options{Trace: spec(t, "constant:rate=1,n=2,in=10,out=2"), Limits: limits, Cost: millis, Engine: engine.Options{Index: "tree"}}); err == nil {
		t.Error("there is an index called tree")
	}
}

// TestSwappingTakesTime: all of a crowded run's time is in steps or in moving pages to host memory and back.
func TestSwappingTakesTime(t *testing.T) {
	o := Options{Trace: spec(t, "constant:rate=1,n=60,in=50-400,out=40-80"), Concurrency: 8, Limits: limits, Cost: millis}
	o.Limits.Pages, o.Limits.SwapPages = 60, 60
	const page = 300 * time.Microsecond
	o.Engine.SwapPage, o.Engine.Predictor = page, fixed{}
	r := run(t, o)
	s := r.Stats
	if s.Swaps == 0 || s.SwappedOut != s.SwappedIn {
		t.Fatalf("%d swaps, %d pages out and %d in: this shows nothing", s.Swaps, s.SwappedOut, s.SwappedIn)
	}
	copying := time.Duration(s.SwappedOut+s.SwappedIn) * page
	moving := time.Duration((1 - r.Busy) * r.Report.Seconds * 1e9)
	if lag := moving - copying; lag < 0 || lag > time.Duration(2*s.Swaps)*engine.SwapLag+time.Microsecond {
		t.Errorf("moving %d pages took %v, copying alone %v", s.SwappedOut+s.SwappedIn, moving, copying)
	}
}

// fixed knows what steps cost in millis.
type fixed struct{}

func (fixed) Predict(s sched.Shape) float64 { return 0.010 + 0.001*float64(s.Tokens) }

func (fixed) Observe(*graph.Step, float64) float64 { return 0 }

// TestAnswerEndsWithTheContext: a prompt of 1,000 tokens leaves 24 of 1,024 for an answer that was to have 100, and a short one beside it
// gets all that it asks for.
func TestAnswerEndsWithTheContext(t *testing.T) {
	o := Options{Trace: spec(t, "constant:rate=1,n=2,in=1000,out=100"), Limits: limits, Cost: millis}
	o.Trace.Requests[1].Input = 10
	r := run(t, o).Report
	if a, b := &r.Records[0], &r.Records[1]; a.Err != nil || a.Output != 24 || len(a.Gaps) != 23 || b.Err != nil || b.Output != 100 {
		t.Errorf("answers of %d tokens (%v) and %d (%v)", a.Output, a.Err, b.Output, b.Err)
	}
}
