package simulate

import (
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/trace"
)

// Settings are what of a recording can be altered.
type Settings struct {
	Limits backend.Limits
	Engine engine.Options
}

// Settings are the recorded ones.
func (r *Recording) Settings() Settings { return Settings{r.Limits, r.Options()} }

// Took is how long each recorded step took.
func (r *Recording) Took() []time.Duration {
	var took []time.Duration
	for _, s := range r.steps {
		if len(s.schedule.Chunks) > 0 && s.took > 0 {
			took = append(took, s.took)
		}
	}
	return took
}

// Run simulates the recorded requests with other settings: they come when they came, and get the answers that they got.
func (r *Recording) Run(s Settings, cost func(*graph.Step) float64, name string) (*Result, error) {
	tr := &trace.Trace{Name: "the recording"}
	for _, id := range r.order {
		q := r.requests[id]
		tr.Requests = append(tr.Requests, trace.Request{At: q.At, Input: len(q.Prompt), Output: max(q.tokens(), 1)})
	}
	s.Engine.Speculation = r.speculation()
	return serve(Options{Trace: tr, Limits: s.Limits, Engine: s.Engine, RunsAhead: r.RunsAhead, Cost: cost, Name: name}, r.Vocab, func(i int) engine.Request {
		q := r.requests[r.order[i]]
		return q.request(engine.Request{Forced: q.whole(), Adapters: q.uses(func() bool { return true })})
	})
}

// tokens is how many the answer has.
func (q *recorded) tokens() (n int) {
	for _, s := range q.outputs {
		n += len(s.Tokens)
	}
	return n
}

// whole is the answer with an end: one that was cut off ends where it was.
func (q *recorded) whole() []engine.StepOutput {
	outputs := append([]engine.StepOutput{}, q.outputs...)
	if len(outputs) == 0 {
		return append(outputs, engine.StepOutput{Reason: sample.ReasonStop})
	}
	last := &outputs[len(outputs)-1]
	last.Err = ""
	if last.Reason == "" {
		last.Reason = sample.ReasonStop
	}
	return outputs
}
