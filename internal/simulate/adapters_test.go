package simulate

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/recording"
)

// TestReplayOfAdapters: requests with adapters, of which few fit at once and which are loaded some steps after they are asked for, come to the queue in a replay where
// they came to it in the recording, and the steps that learning sees have the adapters, from where they acted on. Simulated again they have them too.
func TestReplayOfAdapters(t *testing.T) {
	for _, runsAhead := range []bool{false, true} {
		o := Options{Trace: spec(t, "gamma:rate=3,n=120,in=50-400,out=1-80"), Limits: limits, RunsAhead: runsAhead}
		o.Limits.Adapters = 3
		var file bytes.Buffer
		w := recording.NewWriter(&file, nil)
		w.Hide(small)
		if err := w.Begin(recording.NewHeader("test", small, o.Limits, engine.Options{}, runsAhead)); err != nil {
			t.Fatal(err)
		}
		o.Engine.Recorder = w
		var ran []graph.Step
		o.Cost = func(s *graph.Step) float64 {
			ran = append(ran, graph.Step{Seqs: slices.Clone(s.Seqs), Logits: s.Logits, Adapters: slices.Clone(s.Adapters)})
			return millis(s)
		}
		r, err := serve(o, small, func(i int) engine.Request {
			q := &o.Trace.Requests[i]
			r := engine.Request{Prompt: prompt(o.Trace, i), MaxTokens: q.Output, Params: greedy(), Forced: slices.Repeat([]engine.StepOutput{{Tokens: make([]int32, 1)}}, q.Output)}
			r.Forced[q.Output-1].Reason = "length"
			for j := range i % 3 { // none, one or two
				asked, n := 0, engine.AdapterNumbers{Rank: 8 + j, Bytes: 2, Invocation: r.Prompt[:0]}
				switch i % 5 {
				case 1:
					n.Invocation = r.Prompt[q.Input/2:]
				case 2:
					n.Invocation = []int32{-2}
				}
				wake := func() {}
				use := standIn(uint64(1000+(i+j)%7), 1, n, func() bool {
					asked++
					wake() // an engine that has nothing else to do asks again
					return asked > i%4
				})
				use.Fetch = func(ready func()) { wake = ready }
				r.Adapters = append(r.Adapters, use)
			}
			return r
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if r.Report.Completed != 120 || r.Stats.AdapterLoads < 20 {
			t.Fatalf("%d answers, %d adapters loaded", r.Report.Completed, r.Stats.AdapterLoads)
		}
		if bytes.Contains(file.Bytes(), []byte(`"id":1000,"scale"`)) {
			t.Error("the recording has the process's own ids of adapters")
		}
		rec := read(t, file.Bytes())
		c, sizes, err := Replay(rec)
		if err != nil || c.Differs != "" || c.Same != c.Steps || c.Steps < 200 {
			t.Fatalf("ahead %t: %+v, %v", runsAhead, c, err)
		}
		skipped := false
		for i := range sizes[:c.Steps] {
			if !reflect.DeepEqual(sizes[i].Seqs, ran[i].Seqs) || !sameAdapters(sizes[i].Adapters, ran[i].Adapters) {
				t.Fatalf("step %d is learned from as %+v; it was %+v", i, sizes[i], ran[i])
			}
			skipped = skipped || slices.ContainsFunc(sizes[i].Adapters, func(a graph.StepAdapter) bool { return a.Skip > 0 })
		}
		if !skipped {
			t.Error("no step has rows that come before an adapter's invocation")
		}
		adapted := 0
		again, err := rec.Run(rec.Settings(), func(s *graph.Step) float64 {
			adapted += len(s.Adapters)
			return millis(s)
		}, "again")
		if err != nil || again.Report.Completed != 120 || adapted == 0 {
			t.Errorf("again: %d adapters in steps, %+v, %v", adapted, again, err)
		}
	}
}

// sameAdapters compares the adapters of a step, whichever slots they have.
func sameAdapters(a, b []graph.StepAdapter) bool {
	plain := func(list []graph.StepAdapter) []graph.StepAdapter {
		list = slices.Clone(list)
		for i := range list {
			list[i].Slot = 0
		}
		slices.SortFunc(list, func(x, y graph.StepAdapter) int { return (x.Seq-y.Seq)*64 + x.Rank - y.Rank })
		return list
	}
	return slices.Equal(plain(a), plain(b))
}

// TestSimulatedAdapters: the requests of a trace have adapters in turn, and as many at once as there are slots.
func TestSimulatedAdapters(t *testing.T) {
	o := Options{Trace: spec(t, "constant:n=60,in=100,out=20"), Limits: limits, Concurrency: 16, Adapters: Adapters{Count: 10, Rank: 8}}
	o.Limits.Adapters = 4
	most := 0
	o.Cost = func(s *graph.Step) float64 {
		slots := map[int]bool{}
		for _, a := range s.Adapters {
			slots[a.Slot] = true
			if a.Rank != 8 || a.Bytes != 2 {
				t.Fatalf("a step has the adapter %+v", a)
			}
		}
		if len(s.Adapters) != len(s.Seqs) {
			t.Fatalf("%d of %d sequences have adapters", len(s.Adapters), len(s.Seqs))
		}
		most = max(most, len(slots))
		return millis(s)
	}
	r, err := Run(o)
	if err != nil || r.Report.Completed != 60 || most < 3 || most > 4 || r.Stats.AdapterLoads < 10 {
		t.Errorf("%d adapters at once, %+v, %v", most, r, err)
	}
}

// TestRefusedAdapters: a recording whose adapters cannot be is refused.
func TestRefusedAdapters(t *testing.T) {
	lim := limits
	lim.Adapters = 1
	header := recording.NewHeader("test", small, lim, engine.Options{}, false)
	admitted := func(of ...recording.Adapter) any {
		return recording.Event{Admitted: &recording.Admitted{ID: 1, Prompt: []int32{1}, Adapters: of}}
	}
	adapted := func(of ...engine.AdapterPart) any {
		return recording.Event{Adapted: &recording.Adapted{ID: 1, Adapters: of}}
	}
	for want, lines := range map[string][]any{
		"has 2 adapters":          {admitted(recording.Adapter{ID: 1}, recording.Adapter{ID: 2})},
		"numbers from 1 on":       {admitted(recording.Adapter{})},
		"it never came":           {adapted(engine.AdapterPart{})},
		"had them before":         {admitted(recording.Adapter{ID: 1}), adapted(engine.AdapterPart{}), adapted(engine.AdapterPart{})},
		"has an adapter of rank ": {admitted(recording.Adapter{ID: 1}), adapted(engine.AdapterPart{Rank: -1, From: math.MaxInt})},
	} {
		var file bytes.Buffer
		w := json.NewEncoder(&file)
		for _, line := range append([]any{header}, lines...) {
			if err := w.Encode(line); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ReadRecording("test", &file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; wanted is %q", err, want)
		}
	}
}
