package calibrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// logitRows is the most rows of logits that are timed, and sampledVocab their length.
const logitRows, sampledVocab = 64, 32768

// logits times sampling from a row of logits per number: on the device if it samples itself, otherwise on the host, which reads the row first.
func logits(ctx context.Context, dev backend.Device, p *price.Profile) error {
	run, err := logitsRunner(ctx, dev)
	if err != nil {
		return err
	}
	defer run.prog.Close()
	sampled := hostSampling
	if run.prog.CanSample() {
		sampled = run.deviceSampling
	} else if p.Fit.Read, err = run.reading(); err != nil {
		return err
	}
	s := sample.Default()
	s.Temperature, s.TopP = 0.8, 0.95
	if p.Fit.Logit, err = sampled(s); err != nil {
		return err
	}
	s.Temperature = 0
	p.Fit.Greedy, err = sampled(s)
	return err
}

// logitsRunner has a product with so many rows of logits, and little else.
func logitsRunner(ctx context.Context, dev backend.Device) (*runner, error) {
	y := newBenchGraph("logits", dev.Info(), graph.F16)
	x := y.SelectRows("selected", y.feed("x", axis("in", 64, 1)))
	y.last = y.Linear("logits", x, y.Weight("logits.w", axis("vocab", sampledVocab, 1), axis("in", 64, 1)), nil)
	g, err := y.Finish(y.last)
	if err != nil {
		return nil, err
	}
	return newRunner(ctx, dev, g, logitRows, logitRows, pageSize)
}

// perLogit is what a number more in the rows of logits takes, s: that many rows take so long.
func perLogit(seconds func(s *graph.Step) (float64, error)) (float64, error) {
	var took [2]float64
	for i, n := range []int{1, logitRows} {
		s := seqs(logitRows, 1, 0)
		s.Logits = n
		var err error
		if took[i], err = seconds(&s); err != nil {
			return 0, err
		}
	}
	return max(took[1]-took[0], 0) / ((logitRows - 1) * sampledVocab), nil
}

// reading is the time to read one logit from the device, s.
func (r *runner) reading() (float64, error) {
	if r.prog.HostReads() {
		return 0, nil
	}
	buffer := make([]float32, logitRows*sampledVocab)
	return perLogit(func(s *graph.Step) (float64, error) { return r.wholeStep(s, buffer) })
}

// deviceSampling is the time of sampling a token on the device, per logit, s.
func (r *runner) deviceSampling(p sample.Params) (float64, error) {
	state, err := sample.NewState(p, sampledVocab, []int32{1})
	if err != nil {
		return 0, fmt.Errorf("calibrate: %w", err)
	}
	results := make([]sampling.Result, logitRows)
	return perLogit(func(s *graph.Step) (float64, error) {
		samples := make([]sampling.Sample, s.Logits)
		for i := range samples {
			state.Describe(&samples[i], nil, -1)
			samples[i].Row = i
		}
		throughput.FillBatch(&r.batch, r.lim, s, r.prog.Vocab(), r.rnd)
		var took []float64
		for i := range maxRuns {
			if err := r.prog.Run(&r.batch); err != nil {
				return 0, err
			}
			if err := r.prog.Sample(samples); err != nil {
				return 0, err
			}
			worked, err := r.prog.SampleResults(results[:len(samples)])
			if err != nil {
				return 0, err
			}
			if i > 0 {
				took = append(took, worked.Seconds())
			}
		}
		slices.Sort(took)
		return took[len(took)/2], nil
	})
}

// hostSampling is the time of sampling a token on the host, per logit, s.
func hostSampling(p sample.Params) (float64, error) {
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
