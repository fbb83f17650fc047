package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/internal/simulate"
	"github.com/ridge-llm/ridge/internal/trace"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/route/policy"
)

// apartPlan is what separating prefill from decode is worth for a trace on so many servers.
type apartPlan struct {
	Model   string       `json:"model"`
	Device  string       `json:"device"`
	Servers int          `json:"servers"`
	Trace   string       `json:"trace"`
	SLO     string       `json:"slo,omitempty"`
	Splits  []apartSplit `json:"splits"` // the first: every server does both
	Best    int          `json:"best"`   // of Splits
}

// apartSplit is one division of the servers.
type apartSplit struct {
	Prefill int             `json:"prefill"` // servers; 0: every server does both
	TTFT    loadgen.Summary `json:"ttft_ms"`
	ITL     loadgen.Summary `json:"itl_ms"`
	Rate    float64         `json:"output_tokens_per_s"`
	Good    float64         `json:"goodput_per_s,omitempty"` // requests within the SLO
	Busy    float64         `json:"busy_fraction"`           // of the servers that decode
	Reading float64         `json:"prefill_busy_fraction,omitempty"`
}

const mostApart = 64 // servers

// checkApart refuses flags that do not go with --disaggregate.
func (f *planFlags) checkApart() error {
	switch {
	case f.apart == 0 && (f.link != 0 || f.chunk != 0):
		return errors.New("--kv-link and --prefill-from are for --disaggregate")
	case f.apart == 0:
		return nil
	case f.apart < 2 || f.apart > mostApart:
		return fmt.Errorf("--disaggregate divides %d servers; 2 to %d are possible", f.apart, mostApart)
	case len(f.devices) != 1 || len(f.tensor) != 1 || len(f.pipeline) != 1 || f.pipeline[0] != 1 || len(f.sequence) != 1 || len(f.expert) != 1 || f.expert[0] != 1 || f.data != 1:
		return errors.New("--disaggregate is for servers of one kind: give one --device, one --tp, one --sp and none of --pp, --ep and --dp")
	case f.train || f.loras.Slots > 0 || len(f.quant) > 0 || f.plot != "":
		return errors.New("--disaggregate simulates a trace; leave --train, --loras, --quant and --plot out")
	case f.trace == "":
		return errors.New("--disaggregate needs requests and how often they come: --trace FILE, or a line such as --trace poisson:rate=20,n=1000,in=2048,out=256")
	}
	return nil
}

// planApart simulates the trace on servers that do both, and on every division of them.
func (f *planFlags) planApart(ctx context.Context, name string, m *model.Model) (*apartPlan, error) {
	t, err := trace.Load(f.trace)
	if err != nil {
		return nil, err
	}
	r := &apartPlan{Model: name, Device: f.devices[0], Servers: f.apart, Trace: t.Name, SLO: f.slo}
	for prefill := range f.apart {
		s := simulateFlags{shape: f.shape, device: f.devices[0], tensor: f.tensor[0], sequence: f.sequence[0], method: f.method, accept: -1, route: policy.Names()[0]}
		s.limits.Utilization, s.limits.Context, s.limits.Sequences = f.limits.Utilization, f.limits.Context, 256
		s.limits.StepTokens = f.limits.StepTokens
		s.options = simulate.Options{Trace: t, Name: name + " on " + f.devices[0]}
		if f.slo != "" {
			if s.options.SLO, err = loadgen.ParseSLO(f.slo); err != nil {
				return nil, err
			}
		}
		s.options.Engine.Index, s.options.Engine.MaxWaiting = "radix", len(t.Requests)
		s.replicas.Count = f.apart - prefill
		if prefill > 0 {
			s.apart.Prefill, s.apart.From, s.link = prefill, f.chunk, f.link
		}
		if err := s.setUp(ctx, m); err != nil {
			return nil, err
		}
		one, err := s.run(s.options.Engine.TargetITL, s.options.Engine.ITLRatio, 0)
		if err != nil {
			return nil, err
		}
		split := apartSplit{Prefill: prefill, TTFT: one.Report.TTFT, ITL: one.Report.ITL, Rate: one.Report.OutputRate, Busy: one.Busy}
		if one.Report.Goodput != nil {
			split.Good = one.Report.Goodput.Rate
		}
		if one.Prefill != nil {
			split.Reading = one.Prefill.Busy
		}
		if r.Splits = append(r.Splits, split); split.better(&r.Splits[r.Best]) {
			r.Best = prefill
		}
	}
	return r, nil
}

// better reports whether a division answers more requests within the SLO by more than simulations differ or, without one, has a shorter time from token to token at the 95th percentile
// without first tokens that are later than the other's by more than that.
func (s *apartSplit) better(than *apartSplit) bool {
	const differ = 1.02
	if s.Good != 0 || than.Good != 0 {
		return s.Good > differ*than.Good
	}
	return differ*s.ITL.P95 < than.ITL.P95 && s.TTFT.P95 <= differ*than.TTFT.P95
}

// print writes the table.
func (r *apartPlan) print(out io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Fprintf(out, "%s on %d servers of %s, simulated: %s\n", r.Model, r.Servers, r.Device, r.Trace)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "prefill\tdecode\tTTFT p50\tp95 ms\tITL p50\tp95 ms\ttokens/s\t")
	if r.SLO != "" {
		fmt.Fprint(w, "within the SLO/s\t")
	}
	fmt.Fprintln(w, "busy %\t")
	for i := range r.Splits {
		s := &r.Splits[i]
		both, busy := "together", fmt.Sprintf("%.0f", 100*s.Busy)
		if s.Prefill > 0 {
			both, busy = fmt.Sprint(s.Prefill), fmt.Sprintf("%.0f, %s", 100*s.Reading, busy)
		}
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.2f\t%.2f\t%.0f\t", both, r.Servers-s.Prefill, s.TTFT.P50, s.TTFT.P95, s.ITL.P50, s.ITL.P95, s.Rate)
		if r.SLO != "" {
			fmt.Fprintf(w, "%.2f\t", s.Good)
		}
		fmt.Fprintf(w, "%s\t\n", busy)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	said := "Separating prefill from decode does not pay here: have every server do both."
	if best := &r.Splits[r.Best]; best.Prefill > 0 {
		first := &r.Splits[0]
		said = fmt.Sprintf("Separating pays: %d for prompts and %d for answers, ITL p95 %.2f of together, TTFT p95 %.2f.", best.Prefill, r.Servers-best.Prefill,
			best.ITL.P95/cmp.Or(first.ITL.P95, 1), best.TTFT.P95/cmp.Or(first.TTFT.P95, 1))
	}
	_, err := fmt.Fprintln(out, said)
	return err
}
