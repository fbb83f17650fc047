package simulate

import (
	"context"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/internal/trace"
)

// workload sends the requests of a trace when their time has come and notes what each gets. All but the first are sent from
// the engine's own goroutine, between steps, so that a simulation is the same every time.
type workload struct {
	trace       *trace.Trace
	ask         func(i int) engine.Request // request i, without Emit and Done
	concurrency int                        // requests under way at once; 0: as they come
	engine      *engine.Engine
	clock       *clock
	records     []loadgen.Record

	mu     sync.Mutex
	next   int             // the first request not sent
	active int             // sent and not ended
	free   []time.Duration // in a closed loop: when each client that waits for no answer has its next request at the server
	ended  chan struct{}
}

// turnaround is the time from an answer's end to the next request of its client: short, but the engine has begun its next
// step by then.
const turnaround = time.Millisecond

// due is when the next request comes; false while it depends on an answer, or all have come.
func (w *workload) due() (at time.Duration, known bool) {
	switch {
	case w.next == len(w.records):
		return 0, false
	case w.concurrency == 0:
		return w.trace.Requests[w.next].At, true
	case len(w.free) == 0:
		return 0, false
	}
	return w.free[0], true
}

// start sends the first request.
func (w *workload) start() {
	w.clock.reach(w.trace.Requests[0].At)
	for range w.concurrency {
		w.free = append(w.free, w.clock.since())
	}
	if !w.send() {
		w.arrive()
	}
}

// arrive sends what has come by now. Where nothing is under way any more it waits for the next request first.
func (w *workload) arrive() {
	for {
		w.mu.Lock()
		idle := w.active == 0
		at, known := w.due()
		w.mu.Unlock()
		switch {
		case !known && idle:
			close(w.ended)
			return
		case !known || at > w.clock.since() && !idle:
			return
		}
		w.clock.reach(at)
		w.send()
	}
}

// send submits the next request. One that is refused has ended; send says so.
func (w *workload) send() (taken bool) {
	i := w.next
	q, r := &w.trace.Requests[i], &w.records[i]
	w.mu.Lock()
	at, _ := w.due() // in the middle of a step, perhaps: it has waited for the end of it
	if w.concurrency > 0 {
		w.free = w.free[1:]
	}
	w.mu.Unlock()
	*r = loadgen.Record{At: at, Input: q.Input, Asked: q.Output}
	last := at
	request := w.ask(i)
	request.Emit = func(sample.Choice) bool {
		now := w.clock.since()
		if r.Output == 0 {
			r.TTFT = now - at
			r.Gaps = make([]time.Duration, 0, min(q.Output-1, 1<<12)) // most answers are no longer
		} else {
			r.Gaps = append(r.Gaps, now-last)
		}
		last = now
		r.Output++
		return false
	}
	request.Done = func(f engine.Final) {
		r.E2E, r.Cached, r.Err = w.clock.since()-at, f.Cached, f.Err
		w.done()
		w.arrive()
	}
	w.mu.Lock()
	w.next, w.active = i+1, w.active+1
	w.mu.Unlock()
	if err := w.engine.Submit(context.Background(), request); err != nil {
		r.Err = &loadgen.Failure{Kind: "refused", Message: err.Error()}
		w.done()
		return false
	}
	return true
}

// greedy is the sampling that takes least time.
func greedy() sample.Params {
	p := sample.Default()
	p.Temperature = 0
	return p
}

func (w *workload) done() {
	w.mu.Lock()
	w.active--
	if w.concurrency > 0 {
		w.free = append(w.free, w.clock.since()+turnaround)
	}
	w.mu.Unlock()
}

// prompt is the tokens of a request's prompt: the same for the same segments, and different for others.
func prompt(t *trace.Trace, i int) []int32 {
	tokens := make([]int32, 0, t.Requests[i].Input)
	for _, s := range t.Segments(i) {
		var z uint64
		for j := range s.Tokens {
			if j%8 == 0 { // a number is eight tokens
				z = trace.Scramble(s.ID, uint64(j))
			}
			tokens = append(tokens, int32(z>>(j%8*8))&(small-1))
		}
	}
	return tokens
}

// span is the time from the first request to the last answer's end.
func (w *workload) span() time.Duration { return w.clock.since() - w.trace.Requests[0].At }
