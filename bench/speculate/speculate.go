// Package speculate measures speculative decoding with a synthetic acceptance: the engine decodes answers that are given, and each drafted token is
// accepted with a fixed probability, whatever the model. Steps are the model's own, on its device; nothing is sampled.
package speculate

import (
	"cmp"
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
	Drafts    []int        // lengths of drafts that are verified in every step, the longest being the most of the adaptive ones
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
	Fixed     []Fixed `json:"fixed"`     // with drafts in every step
	Adaptive  float64 `json:"adaptive"`  // with as many as are worth it by price
	Predicted float64 `json:"predicted"` // the adaptive rate by the price of its steps and of drafting; 0: it was not known
	Accepted  float64 `json:"accepted"`  // tokens that a sequence got of drafts in a step, adaptive
	Idle      float64 `json:"idle"`      // share of the adaptive steps' time in which the device had nothing to do
}

// Fixed is the rate with drafts of one length in every step.
type Fixed struct {
	Draft int     `json:"draft"`
	Rate  float64 `json:"rate"`
}

// Best is the fastest of the fixed lengths.
func (r *Row) Best() Fixed {
	return slices.MaxFunc(r.Fixed, func(a, b Fixed) int { return cmp.Compare(a.Rate, b.Rate) })
}

// Runner is a model on a device, with a draft model beside it or none, ready to be measured.
type Runner struct {
	o       Options
	prog    *compile.Program
	drafts  *compile.Program // nil: drafting takes no time
	profile *price.Profile
}

// prompt is how many tokens prompts have on average.
const prompt = 32

// promptOf is the prompt of sequence i, half to one and a half times as long: where all sequences are of one length, as those of no server are, attention is at its best.
func promptOf(i int) []int32 { return make([]int32, prompt/2+(prompt/2+7*i)%(prompt+1)) }

// New compiles the model, and the draft model if there is one, for the device. A profile prices steps.
func New(m Files, small *Files, dev backend.Device, p *price.Profile, o Options) (r *Runner, err error) {
	r = &Runner{o: o, profile: p}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	pageSize, longest := graph.PageTokens(o.Cache), slices.Max(o.Drafts)
	lim := backend.Limits{Tokens: max(o.Chunk, o.Sequences*(1+longest)), Seqs: o.Sequences, Logits: o.Sequences * (1 + longest), PageSize: pageSize}
	lim.SeqPages = (prompt+prompt/2+o.Tokens)/pageSize + 1
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

// mode is an engine with drafts of one kind, or without, and what its rounds came to.
type mode struct {
	engine *engine.Engine
	steps  stepLog
	failed error // a drafter's
	taken  taken // the round at hand
	rounds []measured
}

// measured is what one round came to: rates in tokens a second, tokens of drafts that a sequence got in a step, and the share of the time in which the device had
// nothing to do.
type measured struct{ rate, predicted, accepted, idle float64 }

// Run measures so many sequences. The modes take turns, forth and back, so that what slows the machine down for a while slows all of them; the first round of each does not count.
func (r *Runner) Run(sequences, runs int) (row Row, err error) {
	speculations := []engine.Speculation{{}, {Tokens: slices.Max(r.o.Drafts)}}
	for _, n := range r.o.Drafts {
		speculations = append(speculations, engine.Speculation{Tokens: n, Always: true})
	}
	var modes []*mode
	defer func() {
		for _, m := range modes {
			m.engine.Close()
		}
	}()
	for _, s := range speculations {
		m := &mode{}
		if m.engine, err = r.open(s, m); err != nil {
			return row, err
		}
		m.engine.OnStep(m.steps.add)
		modes = append(modes, m)
	}
	for i := range 1 + runs {
		for _, m := range modes {
			m.taken, err = r.round(m.engine, &m.steps, sequences)
			if err = errors.Join(err, m.failed); err != nil {
				return row, err
			}
		}
		if i > 0 {
			if err := settle(modes); err != nil {
				return row, err
			}
		}
		slices.Reverse(modes)
	}
	if runs%2 == 0 { // they have been reversed an odd number of times
		slices.Reverse(modes)
	}
	without, adaptive, fixed := modes[0], modes[1], modes[2:]
	row = Row{Sequences: sequences, Without: without.median(rate), Adaptive: adaptive.median(rate)}
	row.Predicted, row.Accepted = adaptive.median(func(x measured) float64 { return x.predicted }), adaptive.median(func(x measured) float64 { return x.accepted })
	row.Idle = adaptive.median(func(x measured) float64 { return x.idle })
	for i, m := range fixed {
		row.Fixed = append(row.Fixed, Fixed{Draft: r.o.Drafts[i], Rate: m.median(rate)})
	}
	return row, nil
}

// open starts an engine on the Runner's programs, which several may have as long as one of them runs at a time.
func (r *Runner) open(s engine.Speculation, m *mode) (*engine.Engine, error) {
	pricing, err := price.New(r.prog.Graph, r.profile)
	if err != nil {
		return nil, err
	}
	if s.Tokens > 0 {
		s.Failed = func(err error) { m.failed = err }
		if s.Drafter, err = r.drafter(); err != nil {
			return nil, err
		}
	}
	return engine.New(shared{r.prog}, engine.Options{Predictor: predictor{pricing}, Speculation: s, Index: "none"})
}

func rate(x measured) float64 { return x.rate }

// median is that of the rounds' figures.
func (m *mode) median(of func(measured) float64) float64 {
	var all []float64
	for _, x := range m.rounds {
		all = append(all, of(x))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (r *Runner) drafter() (draft.Drafter, error) {
	if r.drafts == nil {
		return draft.NewSynthetic(r.o.Rate, nil)
	}
	small, err := draftmodel.New(shared{r.drafts}, func() error { return nil })
	if err != nil {
		return nil, err
	}
	return draft.NewSynthetic(r.o.Rate, small)
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

// round decodes so many sequences at once.
func (r *Runner) round(e *engine.Engine, steps *stepLog, sequences int) (taken, error) {
	steps.take() // of the round before
	var all sync.WaitGroup
	errs := make([]error, sequences)
	forced := slices.Repeat([]engine.StepOutput{{Tokens: make([]int32, 1)}}, r.o.Tokens)
	forced[r.o.Tokens-1].Reason = sample.ReasonLength
	e.Together(func() {
		for i := range sequences {
			all.Add(1)
			q := engine.Request{Prompt: promptOf(i), MaxTokens: r.o.Tokens, Params: sample.Default(), Forced: forced, Emit: func(sample.Choice) bool { return false }}
			q.Done = func(f engine.Final) { errs[i] = f.Err; all.Done() }
			if err := e.Submit(context.Background(), q); err != nil {
				errs[i] = err
				all.Done()
			}
		}
	})
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	t := together(steps.take(), sequences)
	if len(t) == 0 {
		return nil, fmt.Errorf("speculate: there was no step in which all %d sequences decoded; measure answers of more tokens", sequences)
	}
	return t, nil
}
