package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// dear is a Predictor by which every step takes a second, so that nothing is computed twice that can be swapped.
type dear struct{}

func (dear) Predict(sched.Shape) float64          { return 1 }
func (dear) Observe(*graph.Step, float64) float64 { return 1 }

// checkSwap holds both accounts of pages to what they promise.
func checkSwap(t *testing.T, e *stepped) {
	t.Helper()
	var here, away []*kv.Seq
	for _, r := range e.queue.byID {
		if r.away {
			away = append(away, &r.seq)
		} else {
			here = append(here, &r.seq)
		}
	}
	if err := errors.Join(e.pages.Check(here...), e.pages.hosts[0].Check(away...)); err != nil || e.pages.away != len(away) {
		t.Fatalf("%v; %d requests are swapped out, counted are %d", err, len(away), e.pages.away)
	}
}

// tight has room for about two of the requests below.
var tight = backend.Limits{Tokens: 64, Seqs: 6, Logits: 6, PageSize: 16, SeqPages: 8, Pages: 10, SwapPages: 20}

// workloadOf submits requests whose answers are written down.
func workloadOf(t *testing.T, e *stepped, ctx func(i int) context.Context, answers []answer, ends []error) {
	for i := range answers {
		prompt := make([]int32, 10+9*i)
		for j := range prompt {
			prompt[j] = int32(3 + (i/2*31+j*j)%90) // two and two have a beginning in common
		}
		r := answers[i].record(e, greedy(prompt, 32))
		r.Done = func(f Final) { ends[i] = f.Err }
		if err := e.Submit(ctx(i), r); err != nil {
			t.Fatal(err)
		}
	}
	e.admit()
}

func always(int) context.Context { return context.Background() }

// TestSwap: requests that are swapped out for want of pages, and come back, get the tokens and logits that they get alone;
// after the last no request has a page, on the device or in host memory. Where that has too little room, some are computed again.
func TestSwap(t *testing.T) {
	const requests = 6
	var want, got [requests]answer
	var ends [requests]error
	roomy := tight
	roomy.Pages, roomy.SwapPages = 64, 0
	e := still(t, modeldir.Builtin, roomy, Options{})
	workloadOf(t, e, always, want[:], ends[:])
	for len(e.queue.byID) > 0 {
		mustStep(t, e)
	}
	little := tight
	little.SwapPages = 4
	for _, c := range []struct {
		index string
		lim   backend.Limits
	}{{"radix", tight}, {"hash", tight}, {"none", tight}, {"radix", little}} {
		got = [requests]answer{}
		e = still(t, modeldir.Builtin, c.lim, Options{Index: c.index, Predictor: dear{}})
		workloadOf(t, e, always, got[:], ends[:])
		for len(e.queue.byID) > 0 {
			if err := e.step(); err != nil {
				t.Fatal(err)
			}
			checkSwap(t, e)
		}
		for i := range got {
			got[i].compare(t, 0, i, want[i])
		}
		e.publish()
		s := e.Stats()
		if s.Swaps == 0 || s.SwappedOut == 0 || s.SwappedIn != s.SwappedOut || s.HostUsed != 0 || s.PagesUsed != 0 {
			t.Errorf("%s: all must have come back, and some must have been away: %+v", c.index, s)
		}
		if c.lim.SwapPages == little.SwapPages && s.Preemptions == s.Swaps {
			t.Errorf("with %d pages of host memory all of %d requests were swapped out", c.lim.SwapPages, s.Swaps)
		}
	}
}

// TestSwapOrCompute: what is cheaper is done.
func TestSwapOrCompute(t *testing.T) {
	for page, swapped := range map[time.Duration]bool{time.Microsecond: true, time.Minute: false} {
		e := still(t, modeldir.Builtin, tight, Options{Predictor: dear{}, SwapPage: page})
		var answers [4]answer
		var ends [4]error
		workloadOf(t, e, always, answers[:], ends[:])
		for len(e.queue.byID) > 0 {
			if err := e.step(); err != nil {
				t.Fatal(err)
			}
		}
		if s := e.meter.stats; s.Preemptions == 0 || (s.Swaps > 0) != swapped {
			t.Errorf("at %v a page: %d of %d preempted were swapped out", page, s.Swaps, s.Preemptions)
		}
	}
}

// TestSwappedGiveUp: a request whose caller goes while it is swapped out leaves nothing behind.
func TestSwappedGiveUp(t *testing.T) {
	e := still(t, modeldir.Builtin, tight, Options{Predictor: dear{}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var answers [6]answer
	var ends [6]error
	workloadOf(t, e, func(int) context.Context { return ctx }, answers[:], ends[:])
	for e.pages.away == 0 {
		if err := e.step(); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	for len(e.queue.byID) > 0 {
		e.admit()
		checkSwap(t, e)
	}
	if e.pages.hosts[0].Available()[0] != tight.SwapPages || e.pages.Available()[0] != tight.Pages {
		t.Errorf("%d of %d pages of host memory and %d of %d others are available", e.pages.hosts[0].Available()[0], tight.SwapPages, e.pages.Available()[0], tight.Pages)
	}
}

// stiff is a swapper of which one copy fails.
type stiff struct {
	backend.Device
	backend.Swapper
	left int // copies until one fails
}

func (d *stiff) SwapOut(m []backend.Move) error { return d.try(d.Swapper.SwapOut, m) }
func (d *stiff) SwapIn(m []backend.Move) error  { return d.try(d.Swapper.SwapIn, m) }

func (d *stiff) try(do func([]backend.Move) error, m []backend.Move) error {
	if d.left--; d.left == 0 {
		return errors.New("the bus is full")
	}
	return do(m)
}

// TestSwapFails: a copy to or from host memory that fails costs time, not tokens.
func TestSwapFails(t *testing.T) {
	const requests = 5
	var want [requests]answer
	var ends [requests]error
	roomy := tight
	roomy.Pages, roomy.SwapPages = 64, 0
	e := still(t, modeldir.Builtin, roomy, Options{})
	workloadOf(t, e, always, want[:], ends[:])
	for len(e.queue.byID) > 0 {
		mustStep(t, e)
	}
	for nth := 1; nth <= 4; nth++ {
		var got [requests]answer
		e := stillOn(t, modeldir.Builtin, tight, Options{Predictor: dear{}}, func(d backend.Device) backend.Device {
			return &stiff{d, d.(backend.Swapper), nth}
		})
		workloadOf(t, e, always, got[:], ends[:])
		failed := 0
		for len(e.queue.byID) > 0 {
			if err := e.step(); err != nil {
				failed++
				if err := e.isolate(err.(*stepFailure)); err != nil {
					t.Fatal(err)
				}
			}
			checkSwap(t, e)
		}
		if failed != 1 || errors.Join(ends[:]...) != nil {
			t.Errorf("copy %d: %d steps failed, and the requests ended with %v", nth, failed, ends)
		}
		for i := range got {
			if !slices.Equal(got[i].tokens, want[i].tokens) {
				t.Errorf("copy %d, request %d: %v, and it should be %v", nth, i, got[i].tokens, want[i].tokens)
			}
		}
	}
}
