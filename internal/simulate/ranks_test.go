package simulate

import (
	"testing"

	"github.com/ridge-llm/ridge/graph"
)

// TestRanks: devices with requests of their own have as many of them as any other, in every step, and so answer almost as many times as much as one device with as many pages; and all come to
// their end where pages are so few that each device preempts.
func TestRanks(t *testing.T) {
	const ranks = 4
	lim := limits
	lim.Seqs, lim.Logits = 32, 32
	o := Options{Trace: spec(t, "constant:n=96,in=100,out=60"), Concurrency: 32, Limits: lim, Cost: millis}
	one := run(t, o)
	o.Limits.Times(ranks)
	o.Limits.Tokens *= ranks
	var step []int // tokens of each rank in the step that is priced
	var most, sum int
	o.Cost = func(s *graph.Step) float64 {
		if step = append(step, s.Tokens()); len(step) == ranks {
			longest := 0
			for _, n := range step {
				longest, sum = max(longest, n), sum+n
			}
			most += longest
			step = step[:0]
		}
		return millis(s)
	}
	all := run(t, o)
	if all.Report.Completed != 96 || one.Report.Completed != 96 {
		t.Fatalf("%d and %d of 96 requests are answered", one.Report.Completed, all.Report.Completed)
	}
	if share := float64(sum) / float64(ranks*most); share < 0.8 {
		t.Errorf("of the device with most tokens in a step the others have %.2f on average", share)
	}
	// A step costs 10 ms beside its tokens, on every device.
	if faster := one.Report.Seconds / all.Report.Seconds; faster < 2.2 || faster > ranks {
		t.Errorf("%d devices take %.2f s and one %.2f s", ranks, all.Report.Seconds, one.Report.Seconds)
	}
	o.Limits, step = lim, nil
	o.Limits.Pages = 24 // of each device: two requests and a half
	o.Limits.Times(ranks)
	if few := run(t, o); few.Report.Completed != 96 || few.Stats.Preemptions == 0 || few.Stats.PagesUsed != 0 || few.Stats.Pages != 24*ranks {
		t.Errorf("with few pages: %d of 96 requests are answered, with %d preemptions; %d of %d pages are in use", few.Report.Completed, few.Stats.Preemptions, few.Stats.PagesUsed, few.Stats.Pages)
	}
}
