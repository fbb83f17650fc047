package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// Scored is the errors of predictions of a model's steps.
type Scored struct {
	Scores []Score      `json:"scores"`
	Steps  []ScoredStep `json:"steps"` // held out, those of prompts last
}

// ScoredStep is a step with its time and its predictions, s.
type ScoredStep struct {
	Tokens     int     `json:"tokens"`
	Sequences  int     `json:"sequences"`
	Context    int64   `json:"cache_rows"`
	Seconds    float64 `json:"seconds"`
	Calibrated float64 `json:"calibrated_seconds"`
	Learned    float64 `json:"learned_seconds"`
	Line       float64 `json:"tokens_and_context_seconds"`
}

// Score is the median and largest relative error of predictions of held-out steps.
type Score struct {
	What          string  `json:"what"`
	Count         int     `json:"count"`
	Calibrated    float64 `json:"calibrated"` // error of the calibration alone
	Learned       float64 `json:"learned"`    // after other steps of the model were observed
	WorstLearned  float64 `json:"worst_learned"`
	Linear        float64 `json:"linear"` // of a fit of tokens and context to those other steps
	WorstOfLinear float64 `json:"worst_linear"`
}

// Limits of scored steps.
const (
	scoreChunk   = 256
	scoreSeqs    = 8
	scoreContext = 2048
)

// seenSteps are the steps that a model learns from, and heldOut those that are scored. Apart from single sequences they share no row
// count, context or number of sequences.
func seenSteps() []graph.Step {
	return []graph.Step{
		seqs(1, 1, 40), seqs(1, 1, 700), seqs(1, 1, 1800), seqs(2, 1, 100), seqs(2, 1, 1200), seqs(4, 1, 300), seqs(8, 1, 60), seqs(8, 1, 900),
		seqs(1, 16, 0), seqs(1, 64, 0), seqs(1, 128, 256), seqs(1, 256, 0), seqs(1, 256, 1024), mixed(3, 64, 400), mixed(6, 200, 100),
	}
}

func heldOut() []graph.Step {
	return []graph.Step{
		seqs(1, 1, 300), seqs(1, 1, 1300), seqs(3, 1, 200), seqs(3, 1, 1500), seqs(5, 1, 500), seqs(6, 1, 1000), seqs(7, 1, 30), seqs(7, 1, 1700),
		seqs(1, 24, 0), seqs(1, 48, 512), seqs(1, 100, 0), seqs(1, 180, 640), seqs(1, 220, 0), seqs(1, 240, 1500), mixed(2, 100, 900), mixed(5, 32, 150), mixed(7, 160, 700),
	}
}

// mixed is n decoding sequences and one with a prefill chunk, all after past tokens.
func mixed(n, chunk, past int) graph.Step {
	s := seqs(n, 1, past)
	s.Seqs = append(s.Seqs, graph.Seq{New: chunk, Past: past})
	return s
}

// prompts are the lengths of prompts whose time to the first token is scored.
var prompts = []int{90, 330, 700, 1100, 1600}

// timedStep is a step with its time and the two predictions.
type timedStep struct {
	step                *graph.Step
	seconds             float64
	calibrated, learned float64
}

// Model scores the predictions of a profile for a model. With adapters the sequences of every step have them in turn.
func Model(dev backend.Device, m *model.Model, files compile.Tensors, p *price.Profile, adapters pass.Adapters) (*Scored, error) {
	info := dev.Info()
	g, err := m.Graph(model.Options{Act: info.Act, Cache: graph.F16})
	if err != nil {
		return nil, err
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Q8: info.Q8, BF16: info.BF16, Kernels: compile.Kernels{Device: dev}, Adapters: adapters}); err != nil {
		return nil, err
	}
	lim := backend.Limits{Adapters: adapters.Slots, Tokens: scoreChunk + scoreSeqs, Seqs: scoreSeqs, Logits: scoreSeqs, PageSize: pageSize, SeqPages: scoreContext / pageSize, Pages: scoreSeqs * scoreContext / pageSize}
	lim.KeepAll(g)
	prog, err := compile.Compile(g, dev, files, lim)
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	prog.Warm()
	at := runner{prog: prog, lim: lim, rnd: rand.New(rand.NewPCG(8, 9))}
	if err := throughput.FillSlots(prog, at.rnd); err != nil {
		return nil, err
	}
	pricing, err := unsampled(prog, p)
	if err != nil {
		return nil, err
	}
	logits := make([]float32, lim.Logits*prog.Vocab())
	measure := func(steps []graph.Step) ([]timedStep, error) {
		var all []timedStep
		for i := range steps {
			throughput.GiveAdapters(&steps[i], min(adapters.Slots, len(steps[i].Seqs)), adapters.Rank)
			took, err := at.wholeStep(&steps[i], logits)
			if err != nil {
				return nil, err
			}
			all = append(all, timedStep{step: &steps[i], seconds: took, calibrated: pricing.Predict(&steps[i])})
		}
		return all, nil
	}
	seen, err := measure(seenSteps())
	if err != nil {
		return nil, err
	}
	held, err := measure(heldOut())
	if err != nil {
		return nil, err
	}
	var chunks [][]timedStep // of each prompt
	for _, n := range prompts {
		c, err := measure(chunksOf(n))
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, c)
	}
	for range 5 {
		for _, t := range seen {
			pricing.Observe(t.step, t.seconds)
		}
	}
	for _, list := range append(chunks, held) {
		for i := range list {
			list[i].learned = pricing.Predict(list[i].step)
		}
	}
	fit := lineThrough(seen)
	s := &Scored{Scores: score(held, chunks, fit)}
	for _, list := range append([][]timedStep{held}, chunks...) {
		for _, t := range list {
			s.Steps = append(s.Steps, ScoredStep{t.step.Tokens(), len(t.step.Seqs), t.step.CtxRows(0), t.seconds, t.calibrated, t.learned, fit(t.step)})
		}
	}
	return s, nil
}

// unsampled prices a program's steps without sampling, as they are timed.
func unsampled(prog *compile.Program, p *price.Profile) (*price.Model, error) {
	profile, fit := *p, *p.Fit
	fit.Logit, profile.Fit = 0, &fit
	return price.New(prog.Graph, &profile)
}

// chunksOf is the prefill steps of a prompt.
func chunksOf(prompt int) []graph.Step {
	var all []graph.Step
	for past := 0; past < prompt; past += scoreChunk {
		all = append(all, seqs(1, min(scoreChunk, prompt-past), past))
	}
	return all
}

// line predicts a step by its tokens and its context.
type line func(*graph.Step) float64

// lineThrough is the non-negative line of the least relative squares through steps.
func lineThrough(seen []timedStep) line {
	rows := make([][]float64, len(seen))
	for i, t := range seen {
		rows[i] = []float64{1 / t.seconds, float64(t.step.Tokens()) / t.seconds, float64(t.step.CtxRows(0)) / t.seconds}
	}
	x := price.LeastSquares(rows, 3)
	return func(s *graph.Step) float64 {
		return x[0] + x[1]*float64(s.Tokens()) + x[2]*float64(s.CtxRows(0))
	}
}

// score compares the predictions of steps, of those that decode, and of whole prompts.
func score(held []timedStep, chunks [][]timedStep, fit line) []Score {
	steps, decode, first := misses{what: "step time"}, misses{what: "inter-token latency"}, misses{what: "time to first token"}
	for _, t := range held {
		steps.add(t.seconds, t.calibrated, t.learned, fit(t.step))
		if t.step.Tokens() == len(t.step.Seqs) {
			decode.add(t.seconds, t.calibrated, t.learned, fit(t.step))
		}
	}
	for _, prompt := range chunks {
		var took, calibrated, learned, linear float64
		for _, t := range prompt {
			took, calibrated, learned, linear = took+t.seconds, calibrated+t.calibrated, learned+t.learned, linear+fit(t.step)
		}
		first.add(took, calibrated, learned, linear)
	}
	return []Score{steps.score(), decode.score(), first.score()}
}

// misses collects relative errors of the three predictions.
type misses struct {
	what                        string
	calibrated, learned, linear []float64
}

func (e *misses) add(took, calibrated, learned, linear float64) {
	off := func(x float64) float64 { return math.Abs(x-took) / took }
	e.calibrated, e.learned, e.linear = append(e.calibrated, off(calibrated)), append(e.learned, off(learned)), append(e.linear, off(linear))
}

func (e *misses) score() Score {
	for _, list := range [][]float64{e.calibrated, e.learned, e.linear} {
		slices.Sort(list)
	}
	n := len(e.learned)
	return Score{
		What: e.what, Count: n, Calibrated: e.calibrated[n/2],
		Learned: e.learned[n/2], WorstLearned: e.learned[n-1], Linear: e.linear[n/2], WorstOfLinear: e.linear[n-1],
	}
}
