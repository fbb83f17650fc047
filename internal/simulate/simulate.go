package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/load"
	"github.com/ridge-llm/ridge/internal/trace"
)

// Options say what to simulate.
type Options struct {
	Trace       *trace.Trace
	Concurrency int                       // requests under way in a closed loop; 0: as the trace says
	Limits      backend.Limits            // of the program that would run
	Engine      engine.Options            // of the engine; its clock is the simulation's
	Cost        func(*graph.Step) float64 // how long a step takes, s
	SLO         load.SLO
	Name        string // of model and device, for the report
}

// Result is what a simulation came to.
type Result struct {
	Report *load.Report `json:"report"`
	Stats  engine.Stats `json:"engine"`
	Busy   float64      `json:"busy_fraction"` // of the time, in steps
	Real   float64      `json:"real_seconds"`  // that the simulation took
	Faster float64      `json:"times_real_time"`

	Compared []Compared `json:"compared,omitempty"` // with a real run
}

// Run simulates a whole trace.
func Run(o Options) (*Result, error) {
	if o.Trace == nil || len(o.Trace.Requests) == 0 {
		return nil, errors.New("simulate: the trace has no requests")
	}
	if o.Concurrency < 0 {
		return nil, fmt.Errorf("simulate: %d requests cannot be under way at once; 0 (as they come) or more is possible", o.Concurrency)
	}
	return serve(o, small, func(i int) engine.Request {
		return engine.Request{Prompt: prompt(o.Trace, i), MaxTokens: o.Trace.Requests[i].Output, Params: greedy()}
	})
}

// serve simulates a trace whose requests are made by ask, of tokens below vocab.
func serve(o Options, vocab int, ask func(i int) engine.Request) (*Result, error) {
	began := time.Now()
	d := &device{clock: &clock{}, vocab: vocab, cost: o.Cost, page: o.Engine.SwapPage}
	prog, err := d.program(o.Limits)
	if err != nil {
		return nil, err
	}
	o.Engine.Clock = d.clock.Now
	e, err := engine.New(prog, o.Engine)
	if err != nil {
		prog.Close()
		return nil, err
	}
	c := &crowd{trace: o.Trace, ask: ask, concurrency: o.Concurrency, engine: e, clock: d.clock, records: make([]load.Record, len(o.Trace.Requests)), ended: make(chan struct{})}
	d.ran = c.arrive
	c.start()
	<-c.ended
	span := c.span()
	e.Close()
	r := &Result{Report: load.NewReport(load.Options{Trace: o.Trace, Concurrency: o.Concurrency, SLO: o.SLO, URL: "simulated"}, o.Name, c.records, span)}
	r.Stats = e.Stats()
	r.Busy = d.spent.Seconds() / max(span.Seconds(), 1e-9)
	r.Real = time.Since(began).Seconds()
	r.Faster = span.Seconds() / max(r.Real, 1e-9)
	return r, nil
}
