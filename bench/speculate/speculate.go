// Package speculate measures speculative decoding with a synthetic acceptance: the engine decodes answers that are given, and each drafted token is
// accepted with a fixed probability, whatever the model. Steps are the model's own, on its device; nothing is sampled.
package speculate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/draftmodel"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/quant"
)

// Options says what to measure.
type Options struct {
	Cache     graph.Type
	Weights   quant.Format // that matrices in floats are quantised to on load; Invalid: they stay as they are
	Inputs    pass.Inputs  // how inputs of matrices in INT8 are rounded
	Rate      float64      // at which drafted tokens are accepted
	Draft     int          // tokens of a draft, at most
	Sequences int          // the most that decode together
	Tokens    int          // of an answer
	Chunk     int          // the most tokens of a step
}

// Files is a model with what its tensors are read from.
type Files struct {
	Model   *model.Model
	Tensors compile.Tensors
}

// Row is the rates of one number of sequences, in tokens a second: medians of the runs.
type Row struct {
	Sequences int     `json:"sequences"`
	Without   float64 `json:"without"`
	Fixed     float64 `json:"fixed"`     // with drafts of Options.Draft tokens in every step
	Adaptive  float64 `json:"adaptive"`  // with as many as are worth it by price
	Predicted float64 `json:"predicted"` // the adaptive rate by the price of its steps, drafting left out; 0: it was not known
	Accepted  float64 `json:"accepted"`  // tokens that a sequence got of drafts in a step, adaptive
}

// Runner is a model on a device, with a draft model beside it or none, ready to be measured.
type Runner struct {
	o       Options
	prog    *compile.Program
	drafts  *compile.Program // nil: drafting takes no time
	profile *price.Profile
}

const prompt = 32

// New compiles the model, and the draft model if there is one, for the device. A profile prices steps.
func New(m Files, small *Files, dev backend.Device, p *price.Profile, o Options) (r *Runner, err error) {
	r = &Runner{o: o, profile: p}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	pageSize := graph.PageTokens(o.Cache)
	lim := backend.Limits{Tokens: max(o.Chunk, o.Sequences*(1+o.Draft)), Seqs: o.Sequences, Logits: o.Sequences * (1 + o.Draft), PageSize: pageSize}
	lim.SeqPages = (prompt+o.Tokens)/pageSize + 1
	lim.Pages = lim.SeqPages * lim.Seqs
	if r.prog, err = compiled(m, dev, o, lim); err != nil || small == nil {
		return r, err
	}
	r.drafts, err = compiled(*small, dev, o, draftmodel.Limits(lim, o.Chunk))
	return r, err
}

func compiled(m Files, dev backend.Device, o Options, lim backend.Limits) (*compile.Program, error) {
	info := dev.Info()
	g, err := m.Model.Graph(model.Options{Act: info.Act, Cache: o.Cache})
	if err != nil {
		return nil, err
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Q8: info.Q8, BF16: info.BF16, Weights: o.Weights, Inputs: o.Inputs, Kernels: compile.Kernels{Device: dev}}); err != nil {
		return nil, err
	}
	lim.KeepAll(g)
	prog, err := compile.Compile(g, dev, m.Tensors, lim)
	if err == nil {
		prog.Warm()
	}
	return prog, err
}

// Close frees the programs.
func (r *Runner) Close() {
	for _, p := range []*compile.Program{r.prog, r.drafts} {
		if p != nil {
			p.Close()
		}
	}
}

// shared is a program that an engine does not close.
type shared struct{ *compile.Program }

// Close does nothing: the Runner closes the program.
func (shared) Close() {}

// predictor prices steps for an engine.
type predictor struct{ *price.Model }

// Predict implements predict.Predictor.
func (p predictor) Predict(s sched.Shape) float64 { return p.PredictShape(price.Shape(s)) }

// Run measures so many sequences, each mode after a run that does not count.
func (r *Runner) Run(sequences, runs int) (Row, error) {
	row := Row{Sequences: sequences}
	for _, mode := range []struct {
		rate *float64
		s    engine.Speculation
	}{{&row.Without, engine.Speculation{}}, {&row.Fixed, engine.Speculation{Tokens: r.o.Draft, Always: true}}, {&row.Adaptive, engine.Speculation{Tokens: r.o.Draft}}} {
		m, err := r.measure(sequences, runs, mode.s)
		if err != nil {
			return row, err
		}
		if *mode.rate = m.rate; mode.rate == &row.Adaptive {
			row.Predicted, row.Accepted = m.predicted, m.accepted
		}
	}
	return row, nil
}

// measured is what runs came to: rates are medians, in tokens a second.
type measured struct{ rate, predicted, accepted float64 }

func (r *Runner) measure(sequences, runs int, s engine.Speculation) (m measured, err error) {
	pricing, err := price.New(r.prog.Graph, r.profile)
	if err != nil {
		return m, err
	}
	var failed error
	if s.Tokens > 0 {
		s.Failed = func(err error) { failed = err }
		if s.Drafter, err = r.drafter(); err != nil {
			return m, err
		}
	}
	e, err := engine.New(shared{r.prog}, engine.Options{Predictor: predictor{pricing}, Speculation: s, Index: "none"})
	if err != nil {
		return m, err
	}
	defer e.Close()
	var steps stepLog
	e.OnStep(steps.add)
	var rates, predicted, accepted []float64
	for i := range 1 + runs {
		x, err := r.round(e, &steps, sequences)
		if err = errors.Join(err, failed); err != nil {
			return m, err
		}
		if i > 0 {
			rates, predicted, accepted = append(rates, x.rate), append(predicted, x.predicted), append(accepted, x.accepted)
		}
	}
	return measured{median(rates), median(predicted), median(accepted)}, nil
}

func (r *Runner) drafter() (draft.Drafter, error) {
	if r.drafts == nil {
		return draft.NewSynthetic(r.o.Rate, nil)
	}
	return draft.NewSynthetic(r.o.Rate, draftmodel.New(shared{r.drafts}, func() error { return nil }))
}

// stepLog keeps an engine's steps. An engine tells of a step's end after the ends of its requests.
type stepLog struct {
	mu    sync.Mutex
	steps []engine.Step
}

func (l *stepLog) add(s engine.Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, s)
}

// take is the steps since it was called last.
func (l *stepLog) take() []engine.Step {
	l.mu.Lock()
	defer l.mu.Unlock()
	steps := l.steps
	l.steps = nil
	return steps
}

// round decodes so many sequences at once. What counts is the steps in which all of them decode.
func (r *Runner) round(e *engine.Engine, steps *stepLog, sequences int) (m measured, err error) {
	steps.take() // of the round before
	var all sync.WaitGroup
	errs := make([]error, sequences)
	forced := slices.Repeat([]engine.StepOutput{{Tokens: make([]int32, 1)}}, r.o.Tokens)
	forced[r.o.Tokens-1].Reason = sample.ReasonLength
	e.Together(func() {
		for i := range sequences {
			all.Add(1)
			q := engine.Request{Prompt: make([]int32, prompt), MaxTokens: r.o.Tokens, Params: sample.Default(), Forced: forced, Emit: func(sample.Choice) bool { return false }}
			q.Done = func(f engine.Final) { errs[i] = f.Err; all.Done() }
			if err := e.Submit(context.Background(), q); err != nil {
				errs[i] = err
				all.Done()
			}
		}
	})
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return m, err
	}
	var tokens, accepted, actual, predicted float64
	for _, s := range steps.take() {
		if s.Requests == sequences && s.Tokens == s.Requests+s.DraftTokens {
			tokens += float64(s.Requests + s.AcceptedTokens)
			accepted += float64(s.AcceptedTokens)
			actual, predicted = actual+s.Actual.Seconds(), predicted+s.Predicted.Seconds()
		}
	}
	if actual == 0 {
		return m, fmt.Errorf("speculate: there was no step in which all %d sequences decoded; measure answers of more tokens", sequences)
	}
	m.rate, m.accepted = tokens/actual, accepted/(tokens-accepted)
	if predicted > 0 {
		m.predicted = tokens / predicted
	}
	return m, nil
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
