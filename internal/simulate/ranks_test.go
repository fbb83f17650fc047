package simulate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/recording"
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

// TestRanksOfStages: where stages have several devices with requests of their own, a stage takes as long as the device of it that has most to do.
func TestRanksOfStages(t *testing.T) {
	calls, tokens := -1, -1 // without the first, which is asked for how many stages there are
	o := Options{Trace: spec(t, "constant:n=8,in=32,out=40"), Concurrency: 8, Limits: limits}
	o.Stages = func(s *graph.Step) []float64 {
		calls, tokens = calls+1, tokens+s.Tokens()
		return []float64{millis(s) / 2, millis(s) / 2}
	}
	o.Limits.Times(2)
	r := run(t, o)
	if want := 8 * (32 + 40 - 1); calls != 2*int(r.Stats.Steps) || tokens != want || r.Report.Completed != 8 {
		t.Errorf("%d steps of two devices a stage are priced %d times, for %d tokens of %d; %d of 8 requests are answered", r.Stats.Steps, calls, tokens, want, r.Report.Completed)
	}
}

// TestReplayOfRanks: a replay of devices with requests of their own decides the same, and learning sees each step once, as the device has it that has most to do.
func TestReplayOfRanks(t *testing.T) {
	var file bytes.Buffer
	w := recording.NewWriter(&file, nil)
	o := Options{Trace: spec(t, "gamma:rate=9,n=80,in=50-400,out=1-80"), Limits: limits}
	o.Limits.Pages = 60
	o.Limits.Times(2)
	var most []int // tokens, of each step
	rank := 0
	o.Cost = func(s *graph.Step) float64 {
		if rank++; rank%2 == 1 {
			most = append(most, 0)
		}
		most[len(most)-1] = max(most[len(most)-1], s.Tokens())
		return millis(s)
	}
	o.Engine.Recorder = w
	if err := w.Begin(recording.NewHeader("test", small, o.Limits, o.Engine, false)); err != nil {
		t.Fatal(err)
	}
	run(t, o)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := read(t, file.Bytes())
	c, sizes, err := Replay(r)
	if err != nil || c.Differs != "" || len(sizes) != len(r.Took()) || len(sizes) != len(most) {
		t.Fatalf("%+v (%v); of %d steps %d are seen, and %d took their time", c, err, len(most), len(sizes), len(r.Took()))
	}
	for i := range sizes {
		if n := sizes[i].Tokens(); n != most[i] {
			t.Fatalf("step %d has %d tokens; the device with most had %d", i, n, most[i])
		}
	}
	for _, ranks := range []string{"-1", "1000000"} {
		bad := strings.Replace(file.String(), `"Ranks":2`, `"Ranks":`+ranks, 1)
		if _, err := ReadRecording("test", strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "limits of") {
			t.Errorf("%s devices with requests of their own: %v", ranks, err)
		}
	}
}
