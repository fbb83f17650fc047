package engine

import (
	"errors"
	"runtime/debug"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
)

// Steps of a pipeline: where a model's layers are divided into stages (compile.Pipelined), as many steps are in flight as there are stages, so that all of them are at work. No step needs a token
// that another in flight is still to bring: the scheduler gives each its part of the running requests (sched.Options.Steps), a request whose token is on its way has nothing left to compute until
// that is there, and prompts go in chunks, of which the next ones are begun while the first is under way. vLLM does the same with a scheduler for each stage.
//
// Devices do steps and copies of pages in the order in which they are given, so pages that a step in flight writes can be found and copied by those behind it, and what is given back early
// is written again only by later ones.

// pipeline is the steps behind the one that is collected next.
type pipeline struct {
	prog   compile.Pipelined // nil: one step is in flight, or two where the device samples
	stages int
	behind []*InFlight
}

// newPipeline is the pipeline of a program, of no stages where it is none, or where something else decides when steps are launched: drafts need all tokens of the steps before, blocks of masked
// tokens what was found, and pages kept beyond the cache are read by this process as soon as they are computed.
func newPipeline(prog compile.Runner, o Options) (p pipeline) {
	x, ok := prog.(compile.Pipelined)
	if !ok || x.Stages() < 2 || o.Speculation.Drafter != nil || o.Diffusion != nil || prog.Limits().HostPages > 0 {
		return p
	}
	return pipeline{prog: x, stages: x.Stages()}
}

// run gives the device the launched step.
func (p *pipeline) run(f *InFlight) error { return p.prog.Begin(&f.batch, f.onlyHidden()) }

// stepPipelined fills the pipeline and collects the step that was begun first. It returns the one behind it.
func (l *loop) stepPipelined(current *InFlight) (next *InFlight, err error) {
	at, p := current, &l.pipeline
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
		if err != nil {
			next, err = nil, &stepFailure{at, err}
		}
	}()
	began := l.meter.began()
	if current == nil {
		if current, err = l.launch(nil); err != nil {
			at = current
			return nil, err
		}
	}
	if len(current.requests) == 0 {
		l.meter.idle()
		l.recorder.Stepped(0)
		return nil, nil
	}
	for 1+len(p.behind) < p.stages && l.canBegin() {
		f, err := l.launch(current)
		if at = f; err != nil {
			return nil, err
		}
		if len(f.requests) == 0 {
			break // what it was scheduled for has no pages after all
		}
		p.behind = append(p.behind, f)
	}
	at = current
	current.idle = 1 - float64(1+len(p.behind))/float64(p.stages)
	if err := p.prog.End(); err != nil {
		return nil, err
	}
	if err := l.collect(current, nil, began); err != nil {
		return nil, err
	}
	if len(p.behind) > 0 {
		next = p.behind[0]
		p.behind = append(p.behind[:0], p.behind[1:]...)
	}
	return next, nil
}

// canBegin schedules a step and reports whether it can be launched behind others: there is something to compute, and nobody has to give back pages for it.
func (l *loop) canBegin() bool {
	if len(l.isolated.requests) > 0 || !l.admit() {
		return false
	}
	l.queue.scheduleNext()
	l.queue.stale = len(l.queue.schedule.Chunks) == 0 || len(l.queue.schedule.Preempt) > 0
	return !l.queue.stale
}

// abandon ends the steps in flight after one has failed. Whether they do well is all one, unless the device is lost.
func (p *pipeline) abandon() error {
	if p.prog == nil {
		return nil
	}
	p.behind = p.behind[:0]
	for {
		err := p.abandoned()
		if err == nil || errors.Is(err, backend.ErrLost) {
			return err
		}
	}
}

func (p *pipeline) abandoned() (err error) {
	defer catch(&err)
	return p.prog.Abandon()
}
