package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/ridge-llm/ridge/internal/size"
)

// print writes the report as tables.
func (r *planReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s, %s parameters", r.Model, large(r.Parameters))
	if r.Active < r.Parameters {
		fmt.Fprintf(out, ", %s active", large(r.Active))
	}
	if r.Workload != nil {
		fmt.Fprintf(out, "; %d prompt tokens, %d output tokens", r.Workload.Input, r.Workload.Output)
	}
	fmt.Fprintln(out)
	if r.Workload == nil {
		return r.printTraining(out)
	}
	if len(r.Batches) > 0 {
		r.printMemory(out, r.Rows[0])
		return r.printBatches(out)
	}
	if err := r.printRows(out); err != nil {
		return err
	}
	return r.printRefused(out)
}

// large is a number of parameters in millions or billions.
func large(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f billion", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f million", float64(n)/1e6)
	}
	return fmt.Sprint(n)
}

// printRows shows the rows that meet the SLO, the best first.
func (r *planReport) printRows(out io.Writer) error {
	fitting := slices.DeleteFunc(slices.Clone(r.Rows), func(row planRow) bool { return row.Why != "" })
	if len(fitting) == 0 {
		return nil
	}
	priced := slices.ContainsFunc(fitting, func(row planRow) bool { return row.Best.Dollars > 0 })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	states := slices.ContainsFunc(fitting, func(row planRow) bool { return row.Memory.State > 0 })
	column := func(text string) string { // of states, where there are any
		if !states {
			return ""
		}
		return text + "\t"
	}
	fmt.Fprint(w, "device\tlayout\tweights\tKV/token\t", column("state"), "longest\tsequences\tTTFT ms\tITL ms\ttok/s\t", header(priced), "\n")
	for _, row := range fitting {
		b, m := row.Best, row.Memory
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s%d\t%d of %d\t%s\t%s\t%.0f\t%s\n", row.Device, row.Layout, size.Text(m.Weights),
			size.Text(m.CacheToken), column(size.Text(m.State)), row.MaxContext, b.Batch, row.MaxBatch, inMillis(b.TTFT), inMillis(b.ITL), b.Rate, dollars(b.Dollars))
	}
	err := w.Flush()
	if err == nil && !priced && len(fitting) > 1 {
		_, err = fmt.Fprintln(out, "sorted by tokens/s per device; --dollars NAME=2.5 (price of an hour) sorts by cost of a million tokens")
	}
	return err
}

// header is the column of costs, where they are known.
func header(priced bool) string {
	if !priced {
		return ""
	}
	return "$/Mtok\t"
}

// inMillis is a time in milliseconds with three digits.
func inMillis(seconds float64) string {
	switch ms := 1e3 * seconds; {
	case ms >= 99.95:
		return fmt.Sprintf("%.0f", ms)
	case ms >= 9.995:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.2f", ms)
	}
}

// dollars is a cell with a sum of money; no cell when it is not known.
func dollars(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f\t", x)
}

// printRefused prints why each of the other rows was left out.
func (r *planReport) printRefused(out io.Writer) error {
	for _, row := range r.Rows {
		if row.Why != "" {
			if _, err := fmt.Fprintf(out, "not %s %s: %s\n", row.Device, row.Layout, row.Why); err != nil {
				return err
			}
		}
	}
	return nil
}

// printMemory shows the memory of a device by purpose.
func (r *planReport) printMemory(out io.Writer, row planRow) {
	m := row.Memory
	free := row.Usable - m.Fixed()
	fmt.Fprintf(out, "%s, %s: %s usable on each device: %s weights, %s activations, %s workspace, %s cache\n", row.Device, row.Layout,
		size.Text(row.Usable), size.Text(m.Weights), size.Text(m.Activations), size.Text(m.Workspace), size.Text(free))
	if m.Adapters > 0 {
		fmt.Fprintf(out, "%s of the rest are LoRA adapters, whose sequences have them in turn\n", size.Text(m.Adapters))
	}
	if m.Host > 0 {
		fmt.Fprintf(out, "%s of the model are tables in the host's memory, of which a step reads a row for each token\n", size.Text(m.Host))
	}
	windows := ""
	if m.Windowed > 0 {
		windows = fmt.Sprintf(" (%s in layers that keep a sliding window)", size.Text(m.Windowed))
	}
	if m.State > 0 {
		windows += fmt.Sprintf(" and %s of state per sequence", size.Text(m.State))
	}
	fmt.Fprintf(out, "%s of cache per token%s; room for %d tokens: %d sequences of %d, or one of %d\n\n", size.Text(m.CacheToken), windows,
		row.Tokens, row.MaxBatch, r.Workload.Input+r.Workload.Output, row.MaxContext)
}

// printBatches shows estimates for several batch sizes.
func (r *planReport) printBatches(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	priced := r.Batches[0].Dollars > 0
	bubbles := func(text string) string { // of pipeline stages, where there are any
		if r.Rows[0].Layout.Pipeline < 2 {
			return ""
		}
		return text + "\t"
	}
	fmt.Fprint(w, "sequences\tTTFT ms\tITL ms\ttok/s\trequests/s\tcache\t", header(priced), bubbles("bubble\tof a prompt"), "bound\t\n")
	for _, e := range r.Batches {
		note := ""
		if !r.SLO.Meets(e) {
			note = "  over --slo"
		}
		if e.Batch > r.Rows[0].MaxBatch {
			note = "  does not fit"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%.0f\t%.2f\t%s\t%s%s%s\t%s\n", e.Batch, inMillis(e.TTFT), inMillis(e.ITL), e.Rate, e.Requests, size.Text(e.Cache), dollars(e.Dollars), bubbles(fmt.Sprintf("%.0f %%\t%.0f %%", 100*e.Bubble, 100*e.PromptBubble)), e.Bound, note)
	}
	return w.Flush()
}

// printTraining shows the memory of training.
func (r *planReport) printTraining(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "device\tlayout\tparameters\tgradients\toptimizer\tactivations\tlogits\ttotal\tusable\t\n")
	for _, row := range r.Rows {
		t := row.Training
		if t == nil {
			continue
		}
		fmt.Fprintf(w, "%s\t%s", row.Device, row.Layout)
		for _, n := range []int64{t.Parameters, t.Gradients, t.Optimizer, t.Activations, t.Logits, t.Total(), row.Usable} {
			fmt.Fprint(w, "\t", size.Text(n))
		}
		fmt.Fprint(w, "\t\n")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.printRefused(out)
}
