package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/internal/trace"
)

// Options say what to simulate.
type Options struct {
	Trace       *trace.Trace
	Adapters    Adapters                    // that its requests have
	Concurrency int                         // requests under way in a closed loop; 0: as the trace says
	Limits      backend.Limits              // of the program that would run
	Engine      engine.Options              // of the engine; its clock is the simulation's
	RunsAhead   bool                        // the device samples tokens itself, so that steps are launched ahead
	Cost        func(*graph.Step) float64   // how long a step takes, s
	Stages      func(*graph.Step) []float64 // how long each of several pipeline stages takes, in place of Cost, for one server; nil: there is one stage
	SLO         loadgen.SLO
	Name        string          // of model and device, for the report
	Stop        <-chan struct{} // closed when the simulation is to end with ErrStopped; nil: it is not
}

// Result is what a simulation came to.
type Result struct {
	Report *loadgen.Report `json:"report"`
	Stats  engine.Stats    `json:"engine"`
	Busy   float64         `json:"busy_fraction"` // of the time, in steps
	Real   float64         `json:"real_seconds"`  // that the simulation took
	Faster float64         `json:"times_real_time"`

	Compared []Compared     `json:"compared,omitempty"` // with a real run
	Replicas []engine.Stats `json:"replicas,omitempty"` // of each, of several; Stats is their sum
	Prefill  *Pool          `json:"prefill,omitempty"`  // of servers that compute prompts for them
}

// ErrStopped says that Options.Stop ended a simulation.
var ErrStopped = errors.New("simulate: it was stopped")

// Run simulates a whole trace.
func Run(o Options) (*Result, error) {
	if o.Trace == nil || len(o.Trace.Requests) == 0 {
		return nil, errors.New("simulate: the trace has no requests")
	}
	if o.Concurrency < 0 {
		return nil, fmt.Errorf("simulate: %d requests cannot be under way at once; 0 (as they come) or more is possible", o.Concurrency)
	}
	room := min(o.Limits.SeqPages, o.Limits.OfRank().Pages) * o.Limits.PageSize
	longest := newAnswer(o.Trace, room)
	return serve(o, small, func(i int) engine.Request {
		q := &o.Trace.Requests[i]
		forced := longest[len(longest)-max(min(q.Output, room-q.Input), 1):]
		return engine.Request{Prompt: prompt(o.Trace, i), MaxTokens: q.Output, Params: greedy(), Forced: forced, Adapters: o.Adapters.of(i)}
	})
}

// newAnswer is the longest answer of a trace, as far as room allows, a token a step; the others are how it ends. Forcing them is faster than sampling.
func newAnswer(t *trace.Trace, room int) []engine.StepOutput {
	n := 1
	for i := range t.Requests {
		q := &t.Requests[i]
		n = max(n, min(q.Output, room-q.Input))
	}
	answer := slices.Repeat([]engine.StepOutput{{Tokens: make([]int32, 1)}}, n)
	answer[n-1].Reason = sample.ReasonLength
	return answer
}

// serve simulates a trace whose requests are made by ask, of tokens below vocab.
func serve(o Options, vocab int, ask func(i int) engine.Request) (*Result, error) {
	began := time.Now()
	d := &device{clock: &clock{}, vocab: vocab, cost: o.Cost, page: o.Engine.SwapPage}
	prog, err := d.program(o.Limits, o.RunsAhead)
	if err != nil {
		return nil, err
	}
	o.Engine.Clock = d.clock.Now
	var on compile.Runner = prog
	if o.Stages != nil {
		n := len(o.Stages(&graph.Step{Seqs: []graph.Seq{{New: 1}}, Logits: 1}))
		on = &stages{Program: prog, device: d, cost: o.Stages, takes: make([]float64, n), free: make([]int64, n)}
	}
	e, err := engine.New(on, o.Engine)
	if err != nil {
		prog.Close()
		return nil, err
	}
	c := &workload{trace: o.Trace, ask: ask, concurrency: o.Concurrency, engine: e, clock: d.clock, records: make([]loadgen.Record, len(o.Trace.Requests)), ended: make(chan struct{})}
	d.ran = c.arrive
	c.start()
	select {
	case <-c.ended:
	case <-o.Stop:
		e.Close()
		return nil, ErrStopped
	}
	span := c.span()
	e.Close()
	r := &Result{Report: loadgen.NewReport(loadgen.Options{Trace: o.Trace, Concurrency: o.Concurrency, SLO: o.SLO, URL: "simulated"}, o.Name, c.records, span)}
	r.Stats = e.Stats()
	r.Busy = d.spent.Seconds() / max(span.Seconds(), 1e-9)
	r.Real = time.Since(began).Seconds()
	r.Faster = span.Seconds() / max(r.Real, 1e-9)
	return r, nil
}
