package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// foresight is the Predictor of a simulation.
type foresight struct{ *price.Model }

// Predict implements engine.Predictor.
func (f foresight) Predict(s sched.Shape) float64 { return f.PredictShape(price.Shape(s)) }

// Observe implements engine.Predictor.
func (f foresight) Observe(s *graph.Step, seconds float64) float64 {
	return f.Model.Observe(s, seconds)
}

// predictBy has the scheduler plan chunks by a price that learns from the simulated steps, as a server's does from its own.
func (f *simulateFlags) predictBy(g *graph.Graph, p *price.Profile) {
	f.renew = append(f.renew, func() error {
		m, err := price.New(g, p, nil)
		f.options.Engine.Predictor = foresight{m}
		return err
	})
}

// swept is a way to cut prompts into chunks, and what it came to.
type swept struct {
	Budget string  `json:"budget"` // tokens of a step, or priced
	Rate   float64 `json:"output_tokens_per_second"`
	ITL99  float64 `json:"itl_p99_ms"`
	TTFT95 float64 `json:"ttft_p95_ms"`
	Kept   bool    `json:"under_target"`
}

// sweepResult is what --sweep prints.
type sweepResult struct {
	Target   float64 `json:"target_itl_ms"`
	Priced   swept   `json:"priced"`
	Fixed    []swept `json:"fixed"`
	Best     *swept  `json:"best_fixed"` // of those under the target; null: none is
	Fraction float64 `json:"priced_of_best_fixed"`
}

// enough is the part of the best fixed budget's throughput that a priced one has to reach: issue 5's gate.
const enough = 0.95

// budgets are the fixed ones to try: from a token for each sequence and a page of a prompt up, four to a doubling.
func budgets(sequences, most int) (all []int) {
	for n := sequences + 16; n < most; n += max(16, n/4/16*16) {
		all = append(all, n)
	}
	return append(all, most)
}

// runSweep simulates every budget.
func (f *simulateFlags) runSweep(out io.Writer) error {
	target := f.options.Engine.TargetITL
	if target <= 0 {
		return errors.New("--sweep needs a --target-itl to keep")
	}
	r := sweepResult{Target: float64(target) / float64(time.Millisecond)}
	var err error
	if r.Priced, err = f.try("priced", target, 0); err != nil {
		return err
	}
	for _, n := range budgets(f.limits.Sequences, f.limits.StepTokens) {
		s, err := f.try(strconv.Itoa(n), 0, n)
		if err != nil {
			return err
		}
		r.Fixed = append(r.Fixed, s)
	}
	for i := range r.Fixed {
		if s := &r.Fixed[i]; s.Kept && (r.Best == nil || s.Rate > r.Best.Rate) {
			r.Best = s
		}
	}
	if r.Best != nil {
		r.Fraction = r.Priced.Rate / r.Best.Rate
	}
	if f.asJSON {
		err = json.NewEncoder(out).Encode(r)
	} else {
		err = r.print(out)
	}
	if err == nil && (!r.Priced.Kept || r.Best != nil && r.Fraction < enough) {
		err = errFailed
	}
	return err
}

// try simulates one budget.
func (f *simulateFlags) try(name string, target time.Duration, budget int) (swept, error) {
	r, err := f.run(target, budget)
	if err != nil {
		return swept{}, err
	}
	itl := r.Report.ITL.P99
	return swept{name, r.Report.OutputRate, itl, r.Report.TTFT.P95, itl <= float64(f.options.Engine.TargetITL)/float64(time.Millisecond)}, nil
}

func (r *sweepResult) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "tokens of a step\toutput tokens/s\tITL p99, ms\tTTFT p95, ms\tunder %g ms\t\n", r.Target)
	for _, s := range append([]swept{r.Priced}, r.Fixed...) {
		kept := "no"
		if s.Kept {
			kept = "yes"
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%s\t\n", s.Budget, s.Rate, s.ITL99, s.TTFT95, kept)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Best == nil {
		_, err := fmt.Fprintln(out, "no fixed budget keeps the target")
		return err
	}
	_, err := fmt.Fprintf(out, "priced reaches %.1f %% of the best fixed budget that keeps the target, %s tokens\n", 100*r.Fraction, r.Best.Budget)
	return err
}
