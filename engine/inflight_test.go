package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
)

// mute is a device that leaves sampling to the host.
type mute struct{ backend.Device }

// onRef is an engine on the reference device, which samples if asked to.
func onRef(t testing.TB, samples bool, lim backend.Limits, o Options) *stepped {
	t.Helper()
	if !samples {
		return on(t, mute{ref.New()}, lim, o)
	}
	return on(t, ref.New(), lim, o)
}

// on is an engine on a device.
func on(t testing.TB, dev backend.Device, lim backend.Limits, o Options) *stepped {
	t.Helper()
	b, err := modeldir.Open("../internal/check/testdata/llama-default")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := compile.Compile(g, dev, b, lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prog.Close)
	return newStepped(t, prog, o)
}

// varied is a request with settings of all kinds, the same for the same seed, that writes its answer to to.
func varied(seed uint64, to *[]sample.Choice, end *Final) Request {
	r := rand.New(rand.NewPCG(seed, 5))
	p := sample.Default()
	p.Seed, p.Temperature = seed, []float64{0, 0.7, 1.3}[r.IntN(3)]
	p.TopK, p.TopP = r.IntN(3)*10, 1-0.2*float64(r.IntN(2))
	if r.IntN(2) == 0 {
		p.RepetitionPenalty, p.FrequencyPenalty, p.PenaltyWindow = 1.3, 0.4, r.IntN(2)*9
	}
	if r.IntN(3) == 0 {
		p.Logprobs, p.TopLogprobs = true, 3
	}
	if r.IntN(3) == 0 {
		p.Banned, p.MinTokens, p.Late = []int32{5, 6}, 4, []int32{7, 8, 9}
	}
	q := Request{Params: p, MaxTokens: 1 + r.IntN(20)}
	for range 1 + r.IntN(40) {
		q.Prompt = append(q.Prompt, int32(3+r.IntN(90)))
	}
	if r.IntN(3) == 0 {
		for id := int32(10); id < 40; id++ {
			q.Ends = append(q.Ends, id)
		}
	}
	stop := -1 // as a stop string would
	if r.IntN(4) == 0 {
		stop = r.IntN(10)
	}
	q.Emit = func(c sample.Choice) bool {
		c.Top = slices.Clone(c.Top)
		*to = append(*to, c)
		return len(*to) == stop+1
	}
	q.Done = func(f Final) { *end = f }
	return q
}

// TestRunAhead: on a device that samples, which is given steps before those in flight are collected, every request, with a grammar or without, gets the answer
// that the host's sampler gives it alone, whichever come and go, be there pages for all or not.
func TestRunAhead(t *testing.T) {
	const requests = 24
	var want [requests][]sample.Choice
	var ends [requests]Final
	ask := func(i int, to *[]sample.Choice, end *Final) Request {
		r := varied(uint64(i), to, end)
		if i%4 == 3 {
			c := constrainedRequest(t, uint64(i), 20)
			r.Params, r.Ends, r.Grammar = c.Params, c.Ends, c.Grammar
		}
		return r
	}
	alone := onRef(t, false, backend.Limits{Tokens: 64, Seqs: 1, Logits: 1, PageSize: 4, SeqPages: 16, Pages: 16}, Options{Index: "none"})
	for i := range want {
		if err := alone.Submit(context.Background(), ask(i, &want[i], &ends[i])); err != nil {
			t.Fatal(err)
		}
		for alone.admit(); len(alone.queue.byID) > 0; alone.admit() {
			mustStep(t, alone)
		}
	}
	for round, o := range []Options{{}, {Index: "hash", StepTokens: 13}, {Index: "none"}, {}} {
		lim := backend.Limits{Tokens: 64, Seqs: 6, Logits: 6, PageSize: 4, SeqPages: 16, Pages: 96}
		if round == 3 {
			lim.Pages = 20 // some are preempted
		}
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			e := onRef(t, true, lim, o)
			var got [requests][]sample.Choice
			var final [requests]Final
			ahead, random := 0, rand.New(rand.NewPCG(uint64(round), 1))
			for i := range got {
				if err := e.Submit(context.Background(), ask(i, &got[i], &final[i])); err != nil {
					t.Fatal(err)
				}
				for e.admit(); random.IntN(3) > 0 && len(e.queue.byID) > 0; e.admit() {
					mustStep(t, e)
					ahead += e.ahead()
				}
			}
			for e.admit(); len(e.queue.byID) > 0; e.admit() {
				mustStep(t, e)
				ahead += e.ahead()
				if e.meter.stats.Steps > 5000 || ahead > 5000 {
					t.Fatal("the requests do not come to their ends")
				}
			}
			for i := range got {
				same := func(a, b sample.Choice) bool { return a.Token == b.Token && slices.EqualFunc(a.Top, b.Top, sameToken) }
				if !slices.EqualFunc(got[i], want[i], same) || final[i].Reason != ends[i].Reason || final[i].Err != nil {
					t.Errorf("request %d got %v (%+v); alone it got %v (%+v)", i, got[i], final[i], want[i], ends[i])
				}
			}
			if ahead < 20 {
				t.Errorf("%d steps were given to the device ahead; most should have been", ahead)
			}
		})
	}
}

func sameToken(a, b sample.Logprob) bool { return a.Token == b.Token }

// broken is a device that fails at one of its steps.
type broken struct {
	*ref.Device
	good int // steps before that
}

func (d *broken) Run(launches []backend.Launch, b *backend.Batch) error {
	if d.good--; d.good == -1 {
		return errors.New("broken")
	}
	return d.Device.Run(launches, b)
}

// TestRunAheadFails: when a step fails that was launched before the one in flight was collected, all start over and
// get their answers; and so do siblings, which sample from one row.
func TestRunAheadFails(t *testing.T) {
	const requests = 5
	lim := backend.Limits{Tokens: 64, Seqs: 6, Logits: 6, PageSize: 4, SeqPages: 16, Pages: 96}
	answers := func(e *stepped) (got [requests][]sample.Choice) {
		var end [requests]Final
		for i := range requests - 1 {
			r, more := varied(uint64(i+30), &got[i], &end[i]), []Request(nil)
			if i == 3 {
				s := varied(uint64(i+31), &got[i+1], &end[i+1])
				s.Prompt = r.Prompt
				more = append(more, s)
			}
			if err := e.Submit(context.Background(), r, more...); err != nil {
				t.Fatal(err)
			}
		}
		for e.admit(); len(e.queue.byID) > 0; e.admit() {
			var failure *stepFailure
			if err := e.step(); errors.As(err, &failure) {
				if err := e.isolate(failure); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range end {
			if end[i].Err != nil {
				t.Errorf("request %d ended with %v", i, end[i].Err)
			}
		}
		return got
	}
	want := answers(onRef(t, false, lim, Options{}))
	for good := range 12 {
		got := answers(on(t, &broken{ref.New(), good}, lim, Options{}))
		for i := range got {
			same := func(a, b sample.Choice) bool { return a.Token == b.Token }
			if !slices.EqualFunc(got[i], want[i], same) {
				t.Errorf("failing at step %d, request %d got %v; it should get %v", good, i, got[i], want[i])
			}
		}
	}
}
