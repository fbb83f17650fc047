package engine

import (
	"errors"
	"time"

	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
)

// Recorder is told, in order, all that scheduling depends on and what it decides: enough to do the same again. The engine's
// goroutine calls it and waits.
type Recorder interface {
	// Admitted is a request that joins the queue, at a time since the engine began.
	Admitted(id int64, at time.Duration, r *Request)
	// Left is one that goes without an end of its own: its caller has gone, or the scheduler refused it.
	Left(id int64)
	// Priced is what the scheduler was told that a step takes, in seconds: with it a plan depends on nothing that is not here.
	Priced(seconds float64)
	// Planned is the step that comes next. The plan is valid during the call. It is empty when nobody needs anything, which
	// happens when the engine wakes for nothing.
	Planned(p *sched.Plan)
	// Said is what a step added to an answer.
	Said(id int64, s Said)
	// Stepped is the end of the step, which took so long.
	Stepped(took time.Duration)
}

// Said is a part of an answer that came with one step: a token, or several that a grammar left no choice about.
type Said struct {
	Tokens []int32       `json:"t,omitempty"`
	Reason sample.Reason `json:"r,omitempty"` // why the answer ends here; "": it goes on, or Err
	Err    string        `json:"e,omitempty"`
}

// unrecorded is the Recorder of an engine that nobody records.
type unrecorded struct{}

func (unrecorded) Admitted(int64, time.Duration, *Request) {}
func (unrecorded) Left(int64)                              {}
func (unrecorded) Priced(float64)                          {}
func (unrecorded) Planned(*sched.Plan)                     {}
func (unrecorded) Said(int64, Said)                        {}
func (unrecorded) Stepped(time.Duration)                   {}

// said is what a draw added to its request's answer.
func (d *draw) said() Said {
	tokens := d.request.tokens
	s := Said{Tokens: tokens[len(tokens)-d.emitted:], Reason: d.reason}
	if d.err != nil {
		s.Err = d.err.Error()
	}
	return s
}

// recite says the next part of a request's script instead of drawing a token.
func (r *request) recite() (sample.Reason, error) {
	if len(r.Script) == 0 {
		return "", errors.New("engine: the script is at its end and the answer is not")
	}
	s := r.Script[0]
	r.Script = r.Script[1:]
	for _, token := range s.Tokens {
		r.tokens = append(r.tokens, token)
		r.output++
		r.Emit(sample.Choice{Token: token})
	}
	if s.Err != "" {
		return "", errors.New(s.Err)
	}
	return s.Reason, nil
}

// Together holds admission back while submit runs, so that all that it submits joins the queue at once.
func (e *Engine) Together(submit func()) {
	e.admission.Lock()
	defer e.admission.Unlock()
	submit()
}
