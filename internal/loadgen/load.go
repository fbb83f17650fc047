// Package loadgen sends requests to a server as many clients would and measures what each got: a load generator for any engine that
// speaks OpenAI's API. An open loop sends each request when its trace says, however slow the answers are; a closed loop
// keeps a number of them under way.
//
//	trace ─► writer (prompt.go) ─► pace (pace.go) ─► client (client.go, answer.go) ─► Record ─► Report (report.go, text.go; chart/)
package loadgen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/internal/trace"
)

// Options say what to send, and where.
type Options struct {
	URL         string // of the server, with or without /v1 at the end
	Model       string // as the server calls it; "": the first that it lists
	Key         string // API key; "": none is sent
	Chat        bool   // use /v1/chat/completions instead of /v1/completions
	Trace       *trace.Trace
	Concurrency int           // requests under way in a closed loop; 0: an open loop
	Timeout     time.Duration // of a request
	Seed        uint64        // of the prompts' text
	SLO         SLO
	Count       Counter                          // nil: the server is asked
	Progress    func(sent, done int)             // called from time to time; may be nil
	Note        func(format string, args ...any) // gets what the reader of the report should know; may be nil
}

// check refuses what cannot be run.
func (o *Options) check() error {
	switch {
	case o.URL == "":
		return errors.New("loadgen: there is no URL to send requests to")
	case o.Trace == nil || len(o.Trace.Requests) == 0:
		return errors.New("loadgen: the trace has no requests")
	case o.Concurrency < 0:
		return fmt.Errorf("loadgen: %d requests cannot be under way at once; 0 (as they come) or more is possible", o.Concurrency)
	case o.Timeout <= 0:
		return fmt.Errorf("loadgen: a request cannot have %v to be answered", o.Timeout)
	case o.Trace.Shared > 0 && o.Trace.BlockSize > 0:
		return fmt.Errorf("loadgen: trace %s says itself which prompts begin alike; a shared prefix cannot be added", o.Trace.Name)
	}
	return nil
}

// clip cuts requests to the context of the model, which would refuse them.
func (o *Options) clip(context int) error {
	t, clipped, err := o.Trace.Clip(context)
	if err != nil {
		return err
	}
	if clipped > 0 {
		o.Note("%d of %d requests are cut to the model's context of %d tokens; --shorter divides all lengths", clipped, len(t.Requests), context)
	}
	o.Trace = t
	return nil
}

// Run sends all requests and waits for their answers. Requests that fail are counted, not an error: only a server that
// cannot be talked to at all is. When ctx is done it stops and reports what came until then.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Note == nil {
		o.Note = func(string, ...any) {}
	}
	c := newClient(&o)
	limit, err := c.findModel(ctx)
	if err != nil {
		return nil, err
	}
	if limit > 0 {
		if err := o.clip(limit); err != nil {
			return nil, err
		}
	}
	w, err := newWriter(ctx, c, &o)
	if err != nil {
		return nil, err
	}
	// One request that does not count: it shows whether the server answers at all, and touches what is lazy in it.
	if r := c.ask(ctx, w.warmUp(), time.Now()); r.Err != nil {
		return nil, fmt.Errorf("loadgen: the first request to %s failed: %w", c.endpoint(), r.Err)
	}
	p := &pace{options: &o, client: c, writer: w, records: make([]Record, len(o.Trace.Requests))}
	p.run(ctx)
	return NewReport(o, c.model, p.records, p.took), nil
}
