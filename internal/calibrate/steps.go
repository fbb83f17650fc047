package calibrate

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// wholeSteps times whole steps of the built-in model, to fit the launch overhead without a clock between launches and the CPU overhead
// of a step.
func wholeSteps(ctx context.Context, dev backend.Device, p *price.Profile) error {
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
	w := runner{stopped: ctx.Err, prog: prog, lim: lim, rnd: rand.New(rand.NewPCG(5, 6))}
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
	if err := r.stopped(); err != nil {
		return 0, err
	}
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
