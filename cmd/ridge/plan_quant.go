package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/evaluate"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/price/capacity"
	"github.com/ridge-llm/ridge/quant"
)

// quantisations are ways to quantise the matrices of linear layers that ridge plan --quant knows beside the types of ridge convert, with the format that such
// checkpoints have in memory (docs/quantization.md); embeddings and what makes the logits stay as they are.
var quantisations = []struct {
	name   string
	format quant.Format
}{
	{"gptq4", quant.Q4_0}, {"gptq8", quant.Q8_0}, {"awq4", quant.UINT4}, {"int4", quant.INT4}, {"int8", quant.INT8}, {"fp8", quant.FP8},
	{"nvfp4", quant.NVFP4_ROW}, {"mxfp4", quant.MXFP4}, {"nf4", quant.NF4}, {"2:4", quant.BF16_2_4},
}

// asItIs is the row of the model that nothing is done to.
const asItIs = "none"

// quantReport is what plan prints of --quant.
type quantReport struct {
	Model    string            `json:"model"`
	Device   string            `json:"device"`
	Layout   pass.Layout       `json:"layout"`
	Workload capacity.Workload `json:"workload"`
	Rows     []quantRow        `json:"rows"`
}

// quantRow is the model quantised in one way.
type quantRow struct {
	Name     string           `json:"quant"`
	Weights  int64            `json:"weights_bytes"`            // on each device
	Decode   float64          `json:"decode_tokens_per_second"` // of one sequence
	Prompt   float64          `json:"prompt_tokens_per_second"` // likewise
	Rate     float64          `json:"tokens_per_second"`        // with as many sequences as give most
	Quality  *evaluate.Result `json:"evaluation,omitempty"`     // that lies beside the model
	Pareto   bool             `json:"pareto"`                   // no other is as good in all that is known, and better in something
	Why      string           `json:"why_not,omitempty"`        // it does not fit, or cannot be
	loss     float64          // of a token more than of the reference or, without one, at all; see quality
	measured bool
}

// planQuant estimates the model in each of the ways, on one device in one layout. path is where evaluations may lie; "": nowhere.
func (f *planFlags) planQuant(ctx context.Context, name, path string, m *model.Model) (*quantReport, error) {
	profiles, err := f.profiles(ctx)
	if err != nil {
		return nil, err
	}
	if len(profiles) != 1 || len(f.pipeline) != 1 || len(f.expert) != 1 || len(f.sequence) != 1 || len(f.tensor) != 1 || f.train || f.shape.quantization != "" || f.shape.number != "" {
		return nil, errors.New("plan: --quant compares formats on one device in one layout: give one --device and one --tp at most, and leave --train, --type and --quantization out")
	}
	if f.limits.Context == 0 {
		f.limits.Context = m.Config.Context
	}
	if err := f.limits.Check(); err != nil {
		return nil, err
	}
	p := profiles[0]
	r := &quantReport{Model: name, Device: p.Name, Layout: f.layouts(f.tensor[0], f.pipeline[0])[0], Workload: f.load}
	known, err := readEvaluations(path)
	if err != nil {
		return nil, err
	}
	for _, way := range append([]string{asItIs}, f.quant...) {
		row, err := f.quantRow(m, p, r.Layout, strings.ToLower(way))
		if err != nil {
			return nil, err
		}
		if e, ok := known[row.Name]; ok {
			row.Quality, row.loss, row.measured = &e, e.NLL, true
			if e.Against != nil {
				row.loss = e.Against.KL
			}
		}
		r.Rows = append(r.Rows, row)
	}
	r.markPareto()
	return r, nil
}

// quantRow estimates one way.
func (f *planFlags) quantRow(m *model.Model, p *price.Profile, l pass.Layout, way string) (quantRow, error) {
	row := quantRow{Name: way}
	shape := f.shape
	format := quant.Invalid
	for _, q := range quantisations {
		if q.name == way {
			format = q.format
		}
	}
	if format == quant.Invalid && way != asItIs {
		if _, err := convert.ParseType(strings.ToUpper(way)); err != nil {
			return row, fmt.Errorf("plan: --quant has %q; %s and the types of ridge convert are possible", way, strings.Join(quantNames(), ", "))
		}
		shape.number = strings.ToUpper(way)
	}
	g, err := shape.graph(m, p.ActType())
	if err != nil {
		return row, err
	}
	o, err := shape.passes(p)
	if err != nil {
		return row, err
	}
	o.Weights = format
	s, err := capacity.New(g, p, l, f.limits, pass.All, o)
	if err == nil {
		row.Weights = s.Memory.Weights
		err = s.Fits(1, f.load.Input+f.load.Output)
	}
	if err != nil {
		row.Why = err.Error()
		return row, nil
	}
	alone := s.Estimate(f.load, 1)
	row.Decode, row.Prompt = 1/alone.ITL, float64(f.load.Input)/alone.TTFT
	if best, ok := s.Best(f.load, f.promise); ok {
		row.Rate = best.Rate
	}
	return row, nil
}

func quantNames() []string {
	var names []string
	for _, q := range quantisations {
		names = append(names, q.name)
	}
	return names
}

// markPareto marks the rows that no other beats. Loss counts where both have an evaluation.
func (r *quantReport) markPareto() {
	for i := range r.Rows {
		a := &r.Rows[i]
		a.Pareto = a.Why == "" && !slices.ContainsFunc(r.Rows, func(b quantRow) bool { return b.beats(a) })
	}
}

// beats reports whether a row is as good as another in memory, both speeds of one sequence and loss, and better in one of them. What has no evaluation beats none that has one.
func (b *quantRow) beats(a *quantRow) bool {
	both := a.measured && b.measured
	if b.Why != "" || b.Weights > a.Weights || b.Decode < a.Decode || b.Prompt < a.Prompt || both && b.loss > a.loss || a.measured && !b.measured {
		return false
	}
	return b.Weights < a.Weights || b.Decode > a.Decode || b.Prompt > a.Prompt || both && b.loss < a.loss
}

// print writes the report as a table.
func (r *quantReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s on %s %s; %d prompt tokens, %d output tokens\n", r.Model, r.Device, r.Layout, r.Workload.Input, r.Workload.Output)
	w := tabwriter.NewWriter(heading(out), 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "quant\tweights\tdecode tok/s\tprompt tok/s\tmost tok/s\tperplexity\tKL\tsame top\t\n")
	for _, row := range r.Rows {
		if row.Why != "" {
			continue
		}
		perplexity, kl, top := "-", "-", "-"
		if e := row.Quality; e != nil {
			perplexity = fmt.Sprintf("%.4f", e.Perplexity)
			if a := e.Against; a != nil {
				kl, top = fmt.Sprintf("%.5f", a.KL), fmt.Sprintf("%.2f %%", 100*a.Top1)
			}
		}
		mark := ""
		if row.Pareto {
			mark = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\n", row.Name, size.Text(row.Weights), row.Decode, row.Prompt, row.Rate, perplexity, kl, top, mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if row.Why != "" {
			fmt.Fprintf(out, "not %s: %s\n", row.Name, row.Why)
		}
	}
	_, err := fmt.Fprintln(out, "* Pareto optimal: none of the others is as good in memory, speed and measured quality, and better in one of them")
	return err
}

// write writes the report, and its plot if one is asked for.
func (r *quantReport) write(out io.Writer, plot string, asJSON bool) error {
	if plot != "" {
		if err := r.draw(plot); err != nil {
			return err
		}
	}
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.print(out)
}
