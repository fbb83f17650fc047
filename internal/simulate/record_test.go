package simulate

import (
	"bytes"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/recording"
)

// mixed simulates requests of which every third has a grammar that forces up to three tokens beside the one that is sampled.
func mixed(t *testing.T, runsAhead bool, recorder engine.Recorder) *Result {
	t.Helper()
	o := Options{Trace: spec(t, "gamma:rate=3,n=120,in=50-400,out=1-80"), Limits: limits, Cost: millis, RunsAhead: runsAhead}
	o.Limits.Pages, o.Engine.Recorder = 100, recorder
	r, err := serve(o, small, func(i int) engine.Request {
		q := &o.Trace.Requests[i]
		r := engine.Request{Prompt: prompt(o.Trace, i), MaxTokens: q.Output, Params: greedy(), Constrained: i%3 == 0}
		for left, n := q.Output, 0; left > 0; left -= n {
			if n = 1; r.Constrained {
				n = min(1+(i+left)%4, left)
			}
			r.Forced = append(r.Forced, engine.StepOutput{Tokens: make([]int32, n)})
		}
		r.Forced[len(r.Forced)-1].Reason = sample.ReasonLength
		return r
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecordingChangesNothing: every token comes at the same time with a recorder and without, be steps launched ahead or not; the
// recording, replayed, decides the same, also one that hides the tokens; and steps that are launched ahead were recorded so.
func TestRecordingChangesNothing(t *testing.T) {
	for i := range 4 {
		runsAhead, hides := i%2 == 1, i/2 == 1
		without := mixed(t, runsAhead, nil)
		var file bytes.Buffer
		w := recording.NewWriter(&file, nil)
		if hides {
			w.Hide(small) // prompts share no beginnings, so none come to share one by chance
		}
		if err := w.Begin(recording.NewHeader("test", small, with100Pages(), engine.Options{}, runsAhead)); err != nil {
			t.Fatal(err)
		}
		with := mixed(t, runsAhead, w)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(with.Report.Records, without.Report.Records) || with.Stats != without.Stats {
			t.Errorf("ahead %t: %+v with a recorder, %+v without", runsAhead, with.Stats, without.Stats)
		}
		if s := with.Stats; s.Preemptions == 0 || with.Report.Completed != 120 {
			t.Errorf("%d preemptions, %d answers", s.Preemptions, with.Report.Completed)
		}
		if ahead := scheduledTwice(file.Bytes()); ahead != runsAhead {
			t.Errorf("two steps were in flight: %t; the device allows it: %t", ahead, runsAhead)
		}
		r := read(t, file.Bytes())
		c, _, err := Replay(r)
		if err != nil || c.Differs != "" || c.Same != c.Steps || c.Steps < 200 {
			t.Errorf("ahead %t: %+v, %v", runsAhead, c, err)
		}
		for _, q := range r.requests {
			q.Constrained = false
		}
		if c, _, err := Replay(r); runsAhead && (err != nil || c.Differs == "") {
			t.Errorf("without its grammars the recording is replayed as %+v, %v: they play no part", c, err)
		}
	}
}

// scheduledTwice reports whether a step was scheduled before the previous one had ended.
func scheduledTwice(file []byte) bool {
	inFlight := 0
	for _, line := range bytes.Split(file, []byte("\n")) {
		switch {
		case bytes.HasPrefix(line, []byte(`{"scheduled"`)):
			inFlight++
		case bytes.HasPrefix(line, []byte(`{"stepped_ns"`)):
			inFlight--
		}
		if inFlight == 2 {
			return true
		}
	}
	return false
}

func with100Pages() backend.Limits {
	l := limits
	l.Pages = 100
	return l
}

// TestReplayOfSiblings: further answers to a prompt join the first in the replay where they did in the recording, and wait where
// they had to.
func TestReplayOfSiblings(t *testing.T) {
	for _, runsAhead := range []bool{false, true} {
		var file bytes.Buffer
		w := recording.NewWriter(&file, nil)
		lim := limits
		lim.Seqs, lim.Logits = 4, 4
		if err := w.Begin(recording.NewHeader("test", small, lim, engine.Options{}, runsAhead)); err != nil {
			t.Fatal(err)
		}
		c := &clock{}
		d := &device{clock: c, vocab: small, cost: millis, ran: func() {}}
		prog, err := d.program(lim, runsAhead)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(prog, engine.Options{Clock: c.Now, Recorder: w})
		if err != nil {
			t.Fatal(err)
		}
		var ended sync.WaitGroup
		ask := func(n int) engine.Request {
			ended.Add(1)
			forced := slices.Repeat([]engine.StepOutput{{Tokens: make([]int32, 1)}}, n)
			forced[n-1].Reason = sample.ReasonLength
			return engine.Request{
				Prompt: make([]int32, 100), MaxTokens: n, Params: greedy(), Forced: forced,
				Emit: func(sample.Choice) bool { return false }, Done: func(engine.Final) { ended.Done() },
			}
		}
		for i := range 3 {
			if err := e.Submit(t.Context(), ask(20+i), ask(10), ask(30), ask(5+i)); err != nil {
				t.Fatal(err)
			}
		}
		ended.Wait()
		e.Close()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r := read(t, file.Bytes())
		if check, _, err := Replay(r); err != nil || check.Differs != "" || check.Requests != 12 || check.Same != check.Steps || check.Steps < 50 {
			t.Errorf("ahead %t: %+v, %v", runsAhead, check, err)
		}
	}
}

// TestRecordingOfDrafts: a recording of an engine that verifies drafts has them, replays to the same decisions, drafts and answers, and changes
// nothing; one whose drafts were changed does not replay.
func TestRecordingOfDrafts(t *testing.T) {
	for i, always := range []bool{false, true, false, true, false} {
		hides := i >= 3
		o := Options{Trace: spec(t, "gamma:rate=3,n=100,in=50-300,out=5-80"), Limits: limits, RunsAhead: i > 0}
		o.Limits.Pages, o.Limits.Logits = 60, 8*limits.Seqs
		o.Cost = func(s *graph.Step) float64 { return 0.01 + 0.0004*float64(s.Tokens()) }
		simulated := func(r engine.Recorder) *Result {
			d, err := draft.NewSynthetic(0.7, nil)
			if err != nil {
				t.Fatal(err)
			}
			o.Engine.Speculation = engine.Speculation{Drafter: d, Tokens: 5, Always: always, Failed: func(err error) { t.Error(err) }}
			o.Engine.Recorder = r
			return run(t, o)
		}
		without := simulated(nil)
		var file bytes.Buffer
		w := recording.NewWriter(&file, nil)
		if hides {
			w.Hide(small)
		}
		if err := w.Begin(recording.NewHeader("test", small, o.Limits, o.Engine, o.RunsAhead)); err != nil {
			t.Fatal(err)
		}
		with := simulated(w)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if s := with.Stats; !reflect.DeepEqual(with.Report.Records, without.Report.Records) || s != without.Stats || s.Preemptions == 0 || s.AcceptedTokens < 500 || with.Report.Completed != 100 {
			t.Errorf("always %t: %+v with a recorder, %+v without", always, s, without.Stats)
		}
		r := read(t, file.Bytes())
		c, _, err := Replay(r)
		if err != nil || c.Differs != "" || c.Same != c.Steps || c.Steps < 200 {
			t.Errorf("always %t: %+v, %v", always, c, err)
		}
		again, err := r.Run(r.Settings(), o.Cost, "again")
		if err != nil || again.Stats.AcceptedTokens < with.Stats.AcceptedTokens*9/10 || again.Stats.Output != with.Stats.Output {
			t.Errorf("the recorded requests, simulated again: %+v, %v; recorded were %+v", again.Stats, err, with.Stats)
		}
		for _, kind := range []string{"drafted", "output"} {
			zero, all := beginWithZero(file.Bytes(), kind)
			if plain := zero > all/2; plain == hides || all < 1000 {
				t.Errorf("hidden %t: %d of %d %s begin with token 0, as most did", hides, zero, all, kind)
			}
		}
		if hides {
			continue
		}
		changed := bytes.Replace(file.Bytes(), []byte(`"t":[0,`), []byte(`"t":[7,`), 1)
		changed = changed[:bytes.LastIndex(bytes.TrimSpace(changed), []byte("\n"))+1]
		if c, _, err := Replay(read(t, changed)); err != nil || c.Differs == "" {
			t.Errorf("with another draft: %+v, %v", c, err)
		}
	}
}

// beginWithZero counts the lines of a kind, and those whose tokens begin with 0: every answer's, and of seven drafts in ten; hidden, one in as many as there are
// tokens, which come in runs, since what follows a draft is in the next line too.
func beginWithZero(file []byte, kind string) (zero, all int) {
	for _, line := range bytes.Split(file, []byte("\n")) {
		if bytes.HasPrefix(line, []byte(`{"`+kind+`":`)) {
			all++
			if bytes.Contains(line, []byte(`"t":[0,`)) || bytes.Contains(line, []byte(`"t":[0]`)) {
				zero++
			}
		}
	}
	return zero, all
}
