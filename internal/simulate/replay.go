package simulate

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/recording"
)

// Check is what a replay of an unchanged recording came to.
type Check struct {
	Steps    int    `json:"steps"`
	Requests int    `json:"requests"`
	Same     int    `json:"same_steps"` // decided as recorded, from the first on
	Differs  string `json:"first_difference,omitempty"`
}

// replay drives an engine through a recording: requests come and go between the same decisions as they did, answers are the
// recorded ones, and steps take as long as they took. It is the engine's Recorder, and compares.
type replay struct {
	r        *Recording
	clock    *clock
	engine   *engine.Engine
	at       int  // the oldest step that has not ended
	next     int  // the first that is not scheduled
	drafted  int  // drafts of the step scheduled last
	idle     bool // the step last scheduled is of no request
	progress atomic.Int64
	check    Check
	leaving  map[int64]*caller
	adapted  map[int64]bool  // requests whose adapters are there, by their recorded ids
	ids      map[int64]int64 // recorded id → the replay's
	over     chan struct{}
	prices   []float64    // that the scheduler has not been told yet
	sizes    []graph.Step // of the steps, as the device saw them that had most to do
}

// Replay runs a recording again, unchanged, and compares every decision of the scheduler. sizes are the steps that were
// run, for learning what they cost.
func Replay(r *Recording) (*Check, []graph.Step, error) {
	p := &replay{r: r, clock: &clock{}, leaving: map[int64]*caller{}, adapted: map[int64]bool{}, ids: map[int64]int64{}, over: make(chan struct{})}
	p.check.Steps, p.check.Requests = len(r.steps), len(r.order)
	d := &device{clock: p.clock, vocab: r.Vocab}
	d.cost = func(*graph.Step) float64 {
		if p.next <= len(r.steps) {
			return r.steps[p.next-1].took.Seconds()
		}
		return 0
	}
	d.ran = func() {}
	d.given = func() {
		s := &d.step
		p.sizes = append(p.sizes, graph.Step{Seqs: slices.Clone(s.Seqs), Logits: s.Logits, Adapters: slices.Clone(s.Adapters)})
		if p.next <= len(r.steps) {
			p.deliver(r.steps[p.next-1].during)
		}
	}
	prog, err := d.program(r.Limits, r.RunsAhead)
	if err != nil {
		return nil, nil, err
	}
	o := r.Options()
	o.Clock, o.Recorder, o.Predictor, o.Speculation = p.clock.Now, p, p, r.speculation()
	for _, s := range r.steps {
		p.prices = append(p.prices, s.schedule.Prices...)
	}
	if p.engine, err = engine.New(prog, o); err != nil {
		prog.Close()
		return nil, nil, err
	}
	p.engine.Together(func() { p.deliver(r.start) })
	p.wait()
	p.engine.Close()
	return &p.check, p.sizes, nil
}

// stuck is how long no step may end before the replay has stopped for good: a step takes microseconds.
const stuck = 5 * time.Second

// wait waits for the end, or until the engine has nothing to do where the recorded one had.
func (p *replay) wait() {
	tick := time.NewTicker(stuck)
	defer tick.Stop()
	for before := int64(-1); ; {
		select {
		case <-p.over:
			return
		case <-tick.C:
		}
		now := p.progress.Load()
		if now == before {
			p.check.Differs = fmt.Sprintf("step %d: no request needs a step; recorded is %v", now, p.r.steps[now].schedule.Chunks)
			return
		}
		before = now
	}
}

// deliver lets requests come and go as recorded.
func (p *replay) deliver(events []recording.Event) {
	for _, e := range events {
		switch {
		case e.Admitted != nil:
			if p.next == p.at { // else time passes by steps
				p.clock.reach(e.Admitted.At)
			}
			p.submit(p.r.requests[e.Admitted.ID])
		case e.Adapted != nil: // it is taken in before the next decision
			if p.next == p.at {
				p.clock.reach(e.Adapted.At)
			}
			p.adapted[e.Adapted.ID] = true
		case e.Left != nil:
			if c := p.leaving[*e.Left]; c != nil {
				c.leave()
			}
		}
	}
}

func (p *replay) submit(q *recorded) {
	c := &caller{Context: context.Background()}
	p.leaving[q.ID] = c
	var siblings []engine.Request
	for _, s := range q.siblings {
		siblings = append(siblings, s.forced())
	}
	r := q.forced()
	r.Adapters = q.uses(func() bool { return p.adapted[q.ID] })
	if err := p.engine.Submit(c, r, siblings...); err != nil {
		p.differ(fmt.Sprintf("request %d is refused: %v", q.ID, err))
	}
}

// forced is the request with the outputs that were recorded.
func (q *recorded) forced() engine.Request {
	outputs := q.outputs
	if outputs == nil {
		outputs = []engine.StepOutput{}
	}
	return q.request(engine.Request{Forced: outputs, Emit: func(sample.Choice) bool { return false }, Done: func(engine.Final) {}})
}

// request is r with what was recorded of the request, its outputs apart.
func (q *recorded) request(r engine.Request) engine.Request {
	r.Prompt, r.MaxTokens, r.Priority, r.Salt, r.Params, r.Constrained = q.Prompt, q.MaxTokens, q.Priority, q.Salt, greedy(), q.Constrained
	r.ForcedDrafts, r.ForcedWaits = q.drafts, q.waits
	if q.Scored {
		r.PromptLogprobs = func(int, sample.Choice) {}
	}
	return r
}

// differ notes the first difference, and ends the replay.
func (p *replay) differ(what string) {
	if p.check.Differs == "" {
		p.check.Differs = fmt.Sprintf("step %d: %s", max(p.next-1, 0), what)
		p.end()
	}
}

func (p *replay) end() {
	select {
	case <-p.over:
	default:
		close(p.over)
	}
}

// Admitted implements engine.Recorder: ids count up, as they did when the recording began with the engine.
func (p *replay) Admitted(id, _ int64, _ time.Duration, _ *engine.Request) {
	if n := len(p.ids); n < len(p.r.order) {
		p.ids[id] = p.r.order[n]
	}
}

// Adapted implements engine.Recorder.
func (p *replay) Adapted(int64, time.Duration, []engine.AdapterPart) {}

// Left implements engine.Recorder.
func (p *replay) Left(int64) {}

// Priced implements engine.Recorder.
func (p *replay) Priced(float64) {}

// Predict implements predict.Predictor: it answers what was answered, in order.
func (p *replay) Predict(sched.Shape) float64 {
	if len(p.prices) == 0 {
		return 0
	}
	seconds := p.prices[0]
	p.prices = p.prices[1:]
	return seconds
}

// Observe implements predict.Predictor.
func (p *replay) Observe(*graph.Step, float64) float64 { return 0 }

// Output implements engine.Recorder.
func (p *replay) Output(int64, engine.StepOutput) {}

// Drafted implements engine.Recorder: it compares.
func (p *replay) Drafted(id int64, d draft.Draft) {
	if p.next > len(p.r.steps) || p.check.Differs != "" {
		return
	}
	drafts := p.r.steps[p.next-1].drafts
	if p.drafted++; p.drafted > len(drafts) || drafts[p.drafted-1].ID != p.ids[id] || !slices.Equal(drafts[p.drafted-1].Tokens, d.Tokens) {
		p.differ(fmt.Sprintf("draft %d is %v for request %d; recorded are the drafts %v", p.drafted-1, d.Tokens, p.ids[id], drafts))
	}
}

// Waits implements engine.Recorder.
func (p *replay) Waits(int64, int, engine.Wait) {}

// DraftingStopped implements engine.Recorder.
func (p *replay) DraftingStopped() {}

// Scheduled implements engine.Recorder: it compares.
func (p *replay) Scheduled(schedule *sched.Schedule) {
	if p.idle = recording.Empty(schedule); p.idle {
		return
	}
	if at := min(p.next, len(p.r.steps)) - 1; at >= 0 && p.drafted < len(p.r.steps[at].drafts) {
		p.differ(fmt.Sprintf("%d drafts are verified; recorded are %v", p.drafted, p.r.steps[at].drafts))
	}
	p.next++
	p.drafted = 0
	if p.next > len(p.r.steps) || p.check.Differs != "" {
		return
	}
	now, then := recording.DecisionOf(schedule), p.r.steps[p.next-1].schedule
	for i := range now.Chunks {
		now.Chunks[i][0] = p.ids[now.Chunks[i][0]]
	}
	for i := range now.Preempt {
		now.Preempt[i] = p.ids[now.Preempt[i]]
	}
	if !slices.Equal(now.Chunks, then.Chunks) || !slices.Equal(now.Preempt, then.Preempt) {
		p.differ(fmt.Sprintf("requests and tokens %v, preempted %v; recorded are %v and %v", now.Chunks, now.Preempt, then.Chunks, then.Preempt))
		return
	}
	p.check.Same++
}

// Stepped implements engine.Recorder: what came between this step and the next comes now.
func (p *replay) Stepped(time.Duration) {
	if p.idle {
		return
	}
	p.progress.Add(1)
	if p.at++; p.at <= len(p.r.steps) {
		p.deliver(p.r.steps[p.at-1].after)
	}
	if p.at >= len(p.r.steps) {
		p.end()
	}
}

// caller is a context that ends at once and not by another goroutine, so that a request leaves between the same
// decisions as it did.
type caller struct {
	context.Context
	gone bool
	tell func()
}

// AfterFunc is what context.AfterFunc calls for contexts that have it.
func (c *caller) AfterFunc(f func()) (stop func() bool) {
	c.tell = f
	return func() bool {
		c.tell = nil
		return !c.gone
	}
}

// Done implements context.Context; it is not waited for.
func (c *caller) Done() <-chan struct{} { return never }

var never = make(chan struct{})

// Err implements context.Context.
func (c *caller) Err() error {
	if c.gone {
		return context.Canceled
	}
	return nil
}

func (c *caller) leave() {
	c.gone = true
	if f := c.tell; f != nil {
		f()
	}
}
