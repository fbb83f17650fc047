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

// predictor is the Predictor of a simulation.
type predictor struct{ *price.Model }

// Predict implements predict.Predictor.
func (p predictor) Predict(s sched.Shape) float64 { return p.PredictShape(price.Shape(s)) }

// Observe implements predict.Predictor.
func (p predictor) Observe(s *graph.Step, seconds float64) float64 {
	return p.Model.Observe(s, seconds)
}

// predictBy has the scheduler choose chunk sizes by a price that learns from the simulated steps, as a server's does.
func (f *simulateFlags) predictBy(g *graph.Graph, p *price.Profile) {
	f.renew = append(f.renew, func() error {
		m, err := price.New(g, p)
		f.options.Engine.Predictor = predictor{m}
		return err
	})
}

// swept is a chunk size, fixed or predicted, with its results.
type swept struct {
	Budget string  `json:"budget"` // tokens of a step, or predicted
	Rate   float64 `json:"output_tokens_per_second"`
	ITL99  float64 `json:"itl_p99_ms"`
	TTFT95 float64 `json:"ttft_p95_ms"`
	Kept   bool    `json:"under_target"`
}

// sweepResult is what --sweep prints.
type sweepResult struct {
	Target    float64 `json:"target_itl_ms"`
	Predicted swept   `json:"predicted"`
	Fixed     []swept `json:"fixed"`
	Best      *swept  `json:"best_fixed"` // of those under the target; null: none is
	Fraction  float64 `json:"predicted_of_best_fixed"`
}

// enough is the fraction of the best fixed size's throughput that predicted sizes must reach (issue 5).
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
	if r.Predicted, err = f.try("predicted", target, 0); err != nil {
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
		r.Fraction = r.Predicted.Rate / r.Best.Rate
	}
	if f.asJSON {
		err = json.NewEncoder(out).Encode(r)
	} else {
		err = r.print(out)
	}
	if err == nil && (!r.Predicted.Kept || r.Best != nil && r.Fraction < enough) {
		err = errFailed
	}
	return err
}

// try simulates one budget.
func (f *simulateFlags) try(name string, target time.Duration, budget int) (swept, error) {
	r, err := f.run(target, 0, budget)
	if err != nil {
		return swept{}, err
	}
	itl := r.Report.ITL.P99
	return swept{name, r.Report.OutputRate, itl, r.Report.TTFT.P95, itl <= float64(f.options.Engine.TargetITL)/float64(time.Millisecond)}, nil
}

func (r *sweepResult) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "tokens of a step\toutput tokens/s\tITL p99, ms\tTTFT p95, ms\tunder %g ms\t\n", r.Target)
	for _, s := range append([]swept{r.Predicted}, r.Fixed...) {
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
		_, err := fmt.Fprintln(out, "no fixed size is under the target")
		return err
	}
	_, err := fmt.Fprintf(out, "predicted sizes reach %.1f %% of the throughput of the best fixed size under the target, %s tokens\n", 100*r.Fraction, r.Best.Budget)
	return err
}
