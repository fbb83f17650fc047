package trace_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ridge-llm/ridge/internal/trace"
)

// TestProcesses: gaps have the mean that the rate says and the coefficient of variation that the process has.
func TestProcesses(t *testing.T) {
	for line, want := range map[string]float64{
		"constant:rate=4,n=20000":         0,
		"poisson:rate=4,n=20000":          1,
		"gamma:rate=4,n=20000,cv=0.5":     0.5,
		"gamma:rate=4,n=20000,cv=3":       3,
		"burst:rate=4,n=20000,size=4":     math.Sqrt(3), // gaps of 4, 0, 0, 0
		"poisson:rate=4,n=20000,seed=999": 1,
	} {
		tr := load(t, line)
		checkTrace(t, tr)
		var sum, squares float64
		n := float64(len(tr.Requests) - 1)
		for i := 1; i < len(tr.Requests); i++ {
			gap := (tr.Requests[i].At - tr.Requests[i-1].At).Seconds()
			sum, squares = sum+gap, squares+gap*gap
		}
		mean := sum / n
		cv := math.Sqrt(max(squares/n-mean*mean, 0)) / mean
		if math.Abs(mean*4-1) > 0.08 || math.Abs(cv-want) > 0.05*want+1e-3 {
			t.Errorf("%s: gaps of %.3f s on average with variation %.3f; want 0.250 and %.3f", line, mean, cv, want)
		}
	}
}

// TestLengths: lengths have the mean and deviation that were asked for.
func TestLengths(t *testing.T) {
	tr := load(t, "poisson:n=20000,in=512/300,out=100-800")
	var in, squares, out float64
	low, high := trace.MaxTokens, 0
	for _, r := range tr.Requests {
		x := float64(r.Input)
		in, squares, out = in+x, squares+x*x, out+float64(r.Output)
		low, high = min(low, r.Output), max(high, r.Output)
	}
	n := float64(len(tr.Requests))
	sd := math.Sqrt(squares/n - in/n*in/n)
	if math.Abs(in/n-512) > 10 || math.Abs(sd-300) > 20 || math.Abs(out/n-450) > 5 || low != 100 || high != 800 {
		t.Errorf("in %.0f ± %.0f, out %.0f from %d to %d", in/n, sd, out/n, low, high)
	}
	if diff := cmp.Diff(tr, load(t, tr.Name)); diff != "" {
		t.Errorf("the same line made another trace: %s", diff)
	}
}

func TestBadSpecs(t *testing.T) {
	for line, want := range map[string]string{
		"poisson:rate=0":     `rate is "0"; a number from 1e-06 to 1e+06 is possible`,
		"poisson:rate=NaN":   `rate is "NaN"`,
		"poisson:n=-1":       `n is "-1"; a whole number from 1 to 10000000 is possible`,
		"poisson:in=9-3":     `in is "9-3"; tokens are possible (512), a range of them (100-800)`,
		"poisson:out=1/x":    `out is "1/x"`,
		"poisson:cv=1":       `poisson: has no setting "cv"`,
		"burst:size=0":       `size is "0"`,
		"poisson:seed=-1":    `seed is "-1"`,
		"gamma:rate":         `rate is ""`,
		"poisson:colour=red": `has no setting "colour"; rate, n, in, out`,
	} {
		if _, err := trace.Spec(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", line, err, want)
		}
	}
}

func TestScaling(t *testing.T) {
	tr := load(t, "testdata/mooncake.jsonl")
	short, err := tr.Shorter(32)
	if err != nil {
		t.Fatal(err)
	}
	fast, err := short.First(2).Faster(2)
	if err != nil {
		t.Fatal(err)
	}
	want := &trace.Trace{Name: "mooncake.jsonl", BlockSize: 16, Requests: []trace.Request{
		{Input: 34, Output: 2, Blocks: []uint64{46, 47, 48}}, {At: 759 * ms, Input: 1, Output: 1, Blocks: []uint64{50}}}}
	if diff := cmp.Diff(want, fast); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := tr.Requests[len(tr.Requests)-1].At; got != 3053*time.Millisecond {
		t.Errorf("scaling changed the trace it began from: its last request comes at %v", got)
	}
	clipped, n, err := tr.Clip(1100)
	if err != nil || n != 1 || clipped.Requests[0].Input != 1048 || clipped.Requests[0].Output != 52 {
		t.Errorf("clipped %d: %+v %v", n, clipped.Requests[0], err)
	}
	for _, x := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, e1 := tr.Faster(x)
		_, e2 := tr.Shorter(x)
		if e1 == nil || e2 == nil {
			t.Errorf("scaled by %g", x)
		}
	}
}

// TestSegments: what is shared has one ID everywhere, what is not has its own.
func TestSegments(t *testing.T) {
	tr := load(t, "constant:n=2,in=200,shared=150")
	a, b := tr.Segments(0), tr.Segments(1)
	if len(a) != 2 || a[0] != b[0] || a[0].Tokens != 150 || a[1].ID == b[1].ID {
		t.Errorf("%v and %v", a, b)
	}
	moon := load(t, "testdata/mooncake.jsonl")
	want := []trace.Segment{{ID: 46, Tokens: 512}, {ID: 47, Tokens: 512}, {ID: 49, Tokens: 6}}
	if diff := cmp.Diff(want, moon.Segments(2)); diff != "" {
		t.Error(diff)
	}
}

func FuzzSpec(f *testing.F) {
	f.Add("poisson:rate=4,n=200,in=512,out=128")
	f.Add("gamma:rate=0.5,cv=3,in=100-800,out=512/300,seed=3")
	f.Add("burst:size=4,shared=10,n=12")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "n=") && len(line) > 40 {
			return // millions of requests take their time
		}
		if tr, err := trace.Spec(line); err == nil && len(tr.Requests) < 1000 {
			checkTrace(t, tr)
		}
	})
}
