package simulate

import (
	"testing"
	"time"

	"github.com/ridge-llm/ridge/graph"
)

// TestStages: two stages read a prompt in two pieces, the second while the last stage is at the first, and answer two halves of the requests in turn; times are those of the prices, by hand.
func TestStages(t *testing.T) {
	halves := func(s *graph.Step) []float64 { return []float64{millis(s) / 2, millis(s) / 2} }
	r := run(t, Options{Trace: spec(t, "constant:rate=1,n=1,in=256,out=3"), Limits: limits, Stages: halves})
	x := r.Report.Records[0]
	if want := 3 * 69 * time.Millisecond; x.TTFT != want || x.Err != nil { // (10 + 128) / 2 for each piece on each stage
		t.Errorf("the first token came after %v (%v); %v is right", x.TTFT, x.Err, want)
	}
	for _, g := range x.Gaps {
		if g != 11*time.Millisecond {
			t.Errorf("a token came after %v; both stages take 11 ms for one", g)
		}
	}
	if r.Stats.Steps != 4 {
		t.Errorf("%d steps; two for the prompt and two for the answer", r.Stats.Steps)
	}
	many := Options{Trace: spec(t, "constant:n=8,in=16,out=201"), Concurrency: 8, Limits: limits}
	two, one := many, many
	two.Stages, one.Cost = halves, millis
	pipelined, alone := run(t, two), run(t, one)
	// By hand 14 ms for a token of all eight, in steps of four, and 18 ms in steps of eight.
	if ratio := alone.Report.Seconds / pipelined.Report.Seconds; ratio < 1.2 || ratio > 18.0/14 {
		t.Errorf("two stages answer %.3f times as fast as one after the other", ratio)
	}
	if pipelined.Busy < 0.95 || pipelined.Report.Completed != 8 {
		t.Errorf("stages are at work %.2f of the time; %d answers", pipelined.Busy, pipelined.Report.Completed)
	}
}
