package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"pgregory.net/rapid"
)

// idle is a device that computes nothing.
type idle struct{ *ref.Device }

func (idle) Run([]backend.Launch, *backend.Batch) error { return nil }

// several is a sampler that brings a request 0 to most tokens a step: what comes at a position depends on the prompt alone.
type several struct {
	ahead  bool
	counts func() int // tokens of an output
}

func (s *several) runsAhead() bool    { return s.ahead }
func (s *several) work(*InFlight) int { return 0 }
func (s *several) drain()             {}

func (s *several) likely(*InFlight, *output, int) int32 { return 0 }

func (s *several) sample(f *InFlight) error {
	f.deferred = false
	for i := range f.outputs {
		f.outputs[i].request.future = i
		f.samples = append(f.samples, sampling.Sample{})
	}
	return nil
}

func (s *several) wait(f *InFlight, _ func() time.Time) error {
	for i := range f.outputs {
		f.outputs[i].sampled = s.counts()
	}
	return nil
}

func (s *several) choice(_ *InFlight, o *output, i, _ int) (sample.Choice, error) {
	p := o.position + i
	return sample.Choice{Token: int32(3 + (int(o.request.Prompt[0])*31+p*p*7+p)%90)}, nil
}

func (s *several) promptChoice(*InFlight, *promptRow, int) (sample.Choice, error) {
	return sample.Choice{}, nil
}

// outputs is a Recorder that keeps what the steps brought each request.
type outputs struct {
	unrecorded
	of map[int64][]int32
}

func (o *outputs) Output(id int64, s StepOutput) { o.of[id] = append(o.of[id], s.Tokens...) }

// TestSeveralTokens: whatever number of tokens steps bring a request, from none to five, it gets those that it gets one at a time,
// with the same end, be steps launched ahead or not, have layers windows or not; and stats and the recorder count them all.
func TestSeveralTokens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "requests")
		ask := make([]func() Request, n)
		for i := range ask {
			prompt := rapid.SliceOfN(rapid.Int32Range(3, 90), 1, 12).Draw(rt, "prompt")
			limit, stop := rapid.IntRange(1, 30).Draw(rt, "max_tokens"), rapid.IntRange(0, 30).Draw(rt, "stop")
			ends := rapid.SliceOfN(rapid.Int32Range(3, 92), 0, 2).Draw(rt, "ends")
			ask[i] = func() Request {
				r := greedy(prompt, limit)
				r.Ends = ends
				r.Priority = stop // of the answer's tokens, after which the owner ends it; read below
				return r
			}
		}
		lim := backend.Limits{Tokens: 40, Seqs: 4, Logits: 4, PageSize: 4, SeqPages: 16, Pages: rapid.IntRange(16, 64).Draw(rt, "pages")}
		window := rapid.Bool().Draw(rt, "window")
		run := func(s *several) (got []collected, e *stepped, recorded *outputs) {
			recorded = &outputs{of: map[int64][]int32{}}
			if window {
				e = windowed(t, "gemma3-pattern", idle{ref.New()}, graph.F32, lim, windows, Options{Recorder: recorded})
			} else {
				e = on(t, idle{ref.New()}, lim, Options{Recorder: recorded})
			}
			e.pool.sampler = s
			got = make([]collected, n)
			for i := range got {
				r := got[i].into(ask[i]())
				emit, stop := r.Emit, r.Priority
				r.Emit = func(c sample.Choice) bool { return emit(c) || len(got[i].tokens) == stop }
				if err := e.Submit(context.Background(), r); err != nil {
					rt.Fatal(err)
				}
			}
			for e.admit(); len(e.queue.byID) > 0; {
				mustStep(t, e)
				if e.meter.stats.Steps > 5000 {
					rt.Fatal("the requests do not come to their ends")
				}
			}
			return got, e, recorded
		}
		want, _, _ := run(&several{counts: func() int { return 1 }})
		for _, ahead := range []bool{false, true} {
			got, e, recorded := run(&several{ahead: ahead, counts: func() int { return rapid.IntRange(0, 5).Draw(rt, "tokens") }})
			emitted := 0
			for i := range want {
				emitted += len(got[i].tokens)
				what := fmt.Sprintf("ahead %t, request %d", ahead, i)
				if !slices.Equal(got[i].tokens, want[i].tokens) || got[i].final.Reason != want[i].final.Reason || got[i].final.Err != nil || got[i].final.Output != len(want[i].tokens) {
					rt.Fatalf("%s got %v (%+v); one at a time it got %v (%+v)", what, got[i].tokens, got[i].final, want[i].tokens, want[i].final)
				}
				if !slices.Equal(recorded.of[int64(i)], want[i].tokens) {
					rt.Fatalf("%s: %v was recorded of %v", what, recorded.of[int64(i)], want[i].tokens)
				}
			}
			if e.meter.stats.Output != int64(emitted) {
				rt.Fatalf("%d tokens are counted of %d", e.meter.stats.Output, emitted)
			}
		}
	})
}
