package calibrate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// wholeSteps times whole steps of the built-in model, to fit the launch overhead without a clock between launches and the CPU overhead
// of a step.
func wholeSteps(dev backend.Device, p *price.Profile) error {
	b, err := modeldir.Builtin()
	if err != nil {
		return err
	}
	defer b.Close()
	g, err := b.Model.Graph(model.Options{Act: dev.Info().Act, Cache: graph.F16})
	if err != nil {
		return err
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Q8: p.Q8, BF16: p.RoundBF16, Kernels: compile.Kernels{Device: dev}}); err != nil {
		return err
	}
	lim := backend.Limits{Tokens: 256, Seqs: 8, Logits: 8, PageSize: pageSize, SeqPages: 16, Pages: 128}
	prog, err := compile.Compile(g, dev, b, lim)
	if err != nil {
		return err
	}
	defer prog.Close()
	prog.Warm()
	var timed []price.TimedStep
	w := runner{prog: prog, lim: lim, rnd: rand.New(rand.NewPCG(5, 6))}
	logits := make([]float32, lim.Logits*prog.Vocab())
	for _, s := range []graph.Step{
		seqs(1, 1, 20), seqs(1, 1, 200), seqs(4, 1, 100), seqs(8, 1, 200),
		seqs(1, 16, 0), seqs(4, 12, 60), seqs(1, 64, 64), mixed(4, 100, 100), seqs(1, 240, 0),
	} {
		took, err := w.wholeStep(&s, logits)
		if err != nil {
			return err
		}
		timed = append(timed, price.TimedStep{Step: &s, Seconds: took})
	}
	return p.FitSteps(prog.Graph, timed)
}

// wholeStep is the median time of a step with its logits, s.
func (r *runner) wholeStep(s *graph.Step, logits []float32) (float64, error) {
	var took []float64
	throughput.FillBatch(&r.batch, r.lim, s, r.prog.Vocab(), r.rnd)
	start := time.Now()
	for run := 0; run <= maxRuns && (run <= minRuns || time.Since(start) < effort); run++ {
		begin := time.Now()
		if err := r.prog.Run(&r.batch); err != nil {
			return 0, err
		}
		if _, err := r.prog.Rows(logits, s.Logits); err != nil {
			return 0, err
		}
		if run > 0 {
			took = append(took, time.Since(begin).Seconds())
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// logits times reading a row of logits from the device and sampling from it, per number.
func logits(dev backend.Device, p *price.Profile) error {
	var err error
	if p.Fit.Read, err = reading(dev); err != nil {
		return err
	}
	s := sample.Default()
	s.Temperature, s.TopP = 0.8, 0.95
	if p.Fit.Logit, err = sampling(s); err != nil {
		return err
	}
	s.Temperature = 0
	p.Fit.Greedy, err = sampling(s)
	return err
}

// sampledVocab is the row length of that measurement.
const sampledVocab = 32768

// reading is the time to read one logit from the device, s.
func reading(dev backend.Device) (float64, error) {
	const rows = 8
	y := newBenchGraph("logits", dev.Info(), graph.F16)
	x := y.SelectRows("selected", y.feed("x", axis("in", 64, 1)))
	y.last = y.Linear("logits", x, y.Weight("logits.w", axis("vocab", sampledVocab, 1), axis("in", 64, 1)), nil)
	g, err := y.Finish(y.last)
	if err != nil {
		return 0, err
	}
	run, err := newRunner(dev, g, rows, rows, pageSize)
	if err != nil {
		return 0, err
	}
	defer run.prog.Close()
	if run.prog.HostReads() {
		return 0, nil
	}
	var took [2]float64
	buffer := make([]float32, rows*sampledVocab)
	for i, n := range []int{1, rows} {
		s := seqs(rows, 1, 0)
		s.Logits = n
		if took[i], err = run.wholeStep(&s, buffer); err != nil {
			return 0, err
		}
	}
	return max(took[1]-took[0], 0) / ((rows - 1) * sampledVocab), nil
}

// sampling is the time of sampling a token, per logit, s.
func sampling(p sample.Params) (float64, error) {
	state, err := sample.NewState(p, sampledVocab, []int32{1})
	if err != nil {
		return 0, fmt.Errorf("calibrate: %w", err)
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	row, logits := make([]float32, sampledVocab), make([]float32, sampledVocab)
	for i := range row {
		row[i] = 3 * float32(rnd.NormFloat64())
	}
	var s sample.Sampler
	best := time.Hour
	for range 20 {
		copy(logits, row)
		start := time.Now()
		if _, err := s.Sample(logits, state, nil); err != nil {
			return 0, fmt.Errorf("calibrate: %w", err)
		}
		best = min(best, time.Since(start))
	}
	return best.Seconds() / sampledVocab, nil
}
