package simulate

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/recording"
)

// record simulates a workload on a small cache and records it.
func record(t *testing.T, policy sched.Policy, index string, runsAhead bool) []byte {
	t.Helper()
	var file bytes.Buffer
	w := recording.NewWriter(&file, nil)
	o := Options{Trace: spec(t, "gamma:rate=3,n=150,in=50-400,out=1-80"), Limits: limits, Cost: millis, RunsAhead: runsAhead}
	o.Trace.Shared = 40
	o.Limits.Pages = 90
	o.Engine.Policy, o.Engine.Index, o.Engine.Recorder = policy, index, w
	if err := w.Begin(recording.NewHeader("test", small, o.Limits, o.Engine, o.RunsAhead)); err != nil {
		t.Fatal(err)
	}
	if r := run(t, o); r.Stats.Preemptions == 0 || r.Report.Cached == 0 {
		t.Fatalf("%d preemptions and %d cached tokens: this shows little", r.Stats.Preemptions, r.Report.Cached)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func read(t *testing.T, file []byte) *Recording {
	t.Helper()
	r, err := ReadRecording("test", bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReplayDecidesTheSame for every policy and index; and finds where a recording was changed.
func TestReplayDecidesTheSame(t *testing.T) {
	for _, policy := range []sched.Policy{sched.FCFS, sched.LongestPrefix, sched.ByPriority} {
		for i, index := range []string{"radix", "hash", "radix", "hash"} {
			r := read(t, record(t, policy, index, i >= 2))
			c, sizes, err := Replay(r)
			if err != nil {
				t.Fatal(err)
			}
			if c.Differs != "" || c.Same != c.Steps || c.Steps < 200 || len(sizes) != len(r.Took()) {
				t.Errorf("%s, %s: %+v; the device saw %d steps of %d", policy, index, c, len(sizes), len(r.Took()))
			}
			r.Index = "none"
			if c, _, err := Replay(r); err != nil || c.Differs == "" || c.Same == 0 {
				t.Errorf("%s: without an index %+v, %v", policy, c, err)
			}
		}
	}
}

// moods is a Predictor that answers the same question otherwise every time, as one that learns does.
type moods struct{ n float64 }

func (m *moods) Predict(s sched.Shape) float64 {
	m.n++
	return float64(s.Tokens) * (1 + math.Mod(m.n*0.7, 3)) / 1000
}

func (m *moods) Observe(*graph.Step, float64) float64 { return 0 }

// TestReplayOfPricedChunks: what the scheduler was told of prices is in the recording, so that chunks cut by them come out
// the same, and so do choices between swapping and computing again.
func TestReplayOfPricedChunks(t *testing.T) {
	var file bytes.Buffer
	w := recording.NewWriter(&file, nil)
	o := Options{Trace: spec(t, "gamma:rate=3,n=60,in=50-400,out=1-80"), Limits: limits, Cost: millis}
	o.Limits.Pages, o.Limits.SwapPages, o.Engine.SwapPage = 60, 50, 15*time.Millisecond
	o.Engine.TargetITL, o.Engine.Predictor, o.Engine.Recorder = 60*time.Millisecond, new(moods), w
	if err := w.Begin(recording.NewHeader("test", small, o.Limits, o.Engine, o.RunsAhead)); err != nil {
		t.Fatal(err)
	}
	if s := run(t, o).Stats; s.Swaps == 0 || s.Swaps == s.Preemptions {
		t.Fatalf("%d of %d preemptions by swapping: this shows little", s.Swaps, s.Preemptions)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := read(t, file.Bytes())
	c, _, err := Replay(r)
	if err != nil || c.Differs != "" || c.Same != c.Steps {
		t.Errorf("%+v, %v", c, err)
	}
	for i := range r.steps {
		r.steps[i].schedule.Prices = nil
	}
	if c, _, err := Replay(r); err != nil || c.Differs == "" {
		t.Errorf("without the prices %+v, %v: the test shows nothing", c, err)
	}
}

// TestAltered: more cache ends preemption, and no time is won by less.
func TestAltered(t *testing.T) {
	r := read(t, record(t, sched.FCFS, "radix", false))
	_, sizes, err := Replay(r)
	if err != nil {
		t.Fatal(err)
	}
	cost, err := Learn(sizes, r.Took())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sizes {
		if got, want := cost(&s), millis(&s); math.Abs(got/want-1) > 0.01 {
			t.Fatalf("a step of %d tokens is learnt to take %.4f s; it takes %.4f", s.Tokens(), got, want)
		}
	}
	s := r.Settings()
	same, err := r.Run(s, cost, "same")
	if err != nil {
		t.Fatal(err)
	}
	s.Limits.Pages *= 8
	more, err := r.Run(s, cost, "more")
	if err != nil {
		t.Fatal(err)
	}
	if more.Stats.Preemptions != 0 || same.Stats.Preemptions == 0 || more.Report.Seconds > same.Report.Seconds {
		t.Errorf("%d preemptions in %.1f s, with more cache %d in %.1f s", same.Stats.Preemptions, same.Report.Seconds, more.Stats.Preemptions, more.Report.Seconds)
	}
	if more.Report.Completed != 150 || more.Report.Output != same.Report.Output {
		t.Errorf("%d answers of %d tokens with more cache, %d of %d without", more.Report.Completed, more.Report.Output, same.Report.Completed, same.Report.Output)
	}
}

// TestBadRecordings are refused with their line.
func TestBadRecordings(t *testing.T) {
	file := string(record(t, sched.FCFS, "radix", false))
	lines := strings.SplitAfter(file, "\n")
	for what, c := range map[string]struct{ file, want string }{
		"empty":      {"", "the file is empty"},
		"no step":    {lines[0], "holds no step"},
		"another":    {"{}\n" + lines[1], "line 1: the recording's version is 0, and 3 is read"},
		"not JSON":   {lines[0] + "hello\n" + lines[1], "line 2"},
		"unknown":    {lines[0] + "{}\n" + lines[1], "line 2: the line says nothing that is known"},
		"twice":      {lines[0] + lines[1] + lines[1], "line 3: request 0 is admitted twice"},
		"no request": {lines[0] + `{"output":{"id":7}}` + "\n", "line 2: request 7 answers and never came"},
		"no draft":   {lines[0] + lines[1] + `{"drafted":{"id":0,"t":[1]}}` + "\n", "line 3: a draft is recorded for request 0"},
		"embeddings": {lines[0] + `{"admitted":{"id":0,"prompt":[0],"max_tokens":1,"embedded":true}}` + "\n", "line 2: request 0 has a prompt of embeddings"},
		"huge":       {`{"ridge_recording":3,"vocab":100000000}` + "\n", "a vocabulary of 100000000"},
	} {
		if _, err := ReadRecording("file", strings.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, and %q is wanted", what, err, c.want)
		}
	}
	if r := read(t, []byte(file[:len(file)-7])); len(r.steps) < 100 {
		t.Errorf("a recording cut off at its end has %d steps", len(r.steps))
	}
}

func TestLearnRefuses(t *testing.T) {
	if _, err := Learn([]graph.Step{{}}, []time.Duration{0}); err == nil {
		t.Error("something was learnt from nothing")
	}
}
