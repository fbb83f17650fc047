package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ridge-llm/ridge/price/capacity"
)

// print writes the report as tables.
func (r *planReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s, %.2f billion parameters", r.Model, float64(r.Parameters)/1e9)
	if r.Active < r.Parameters {
		fmt.Fprintf(out, ", of which a token passes %.2f", float64(r.Active)/1e9)
	}
	if r.Workload != nil {
		fmt.Fprintf(out, "; prompts of %d tokens, answers of %d", r.Workload.Input, r.Workload.Output)
	}
	fmt.Fprintln(out)
	if r.Workload == nil {
		return r.printTraining(out)
	}
	if len(r.Batches) > 0 {
		r.printMemory(out, r.Rows[0])
		return r.printBatches(out)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "device\tlayout\tweights\tKV/token\tlongest\tsequences\tTTFT ms\tITL ms\ttok/s\t$/Mtok\t\n")
	for _, row := range r.Rows {
		if row.Why != "" {
			continue
		}
		b, m := row.Best, row.Memory
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d of %d\t%.0f\t%.1f\t%.0f\t%s\t\n", row.Device, row.Layout, capacity.Bytes(m.Weights),
			capacity.Bytes(m.CacheToken), row.MaxContext, b.Batch, row.MaxBatch, b.TTFT*1e3, b.ITL*1e3, b.Rate, dollars(b.Dollars))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.printRefused(out)
}

// dollars is a sum of money; nothing when it is not known.
func dollars(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f", x)
}

// printRefused says of each row that does not do why.
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

// printMemory shows where the memory of a device goes.
func (r *planReport) printMemory(out io.Writer, row planRow) {
	m := row.Memory
	free := row.Usable - m.Weights - m.Activations
	fmt.Fprintf(out, "%s, %s: of each device's memory %s may be used: %s weights, %s activations, %s cache\n", row.Device, row.Layout,
		capacity.Bytes(row.Usable), capacity.Bytes(m.Weights), capacity.Bytes(m.Activations), capacity.Bytes(free))
	fmt.Fprintf(out, "a token takes %s of cache; room for %d: %d sequences of %d, or one of %d\n\n", capacity.Bytes(m.CacheToken),
		free/max(m.CacheToken, 1), row.MaxBatch, r.Workload.Input+r.Workload.Output, row.MaxContext)
}

// printBatches shows growing numbers of sequences.
func (r *planReport) printBatches(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "sequences\tTTFT ms\tITL ms\ttok/s\trequests/s\tcache\t$/Mtok\tmost time\t\n")
	for _, e := range r.Batches {
		note := ""
		if !r.SLO.Meets(e) {
			note = "  misses --slo"
		}
		if e.Batch > r.Rows[0].MaxBatch {
			note = "  does not fit"
		}
		fmt.Fprintf(w, "%d\t%.0f\t%.2f\t%.0f\t%.2f\t%s\t%s\t%s%s\t\n", e.Batch, e.TTFT*1e3, e.ITL*1e3, e.Rate, e.Requests, capacity.Bytes(e.Cache), dollars(e.Dollars), e.Bound, note)
	}
	return w.Flush()
}

// printTraining shows the memory of training.
func (r *planReport) printTraining(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "device\tlayout\tparameters\tgradients\toptimizer\tactivations\tlogits\tin all\tusable\t\n")
	for _, row := range r.Rows {
		t := row.Training
		if t == nil {
			continue
		}
		fmt.Fprintf(w, "%s\t%s", row.Device, row.Layout)
		for _, n := range []int64{t.Parameters, t.Gradients, t.Optimizer, t.Activations, t.Logits, t.Total(), row.Usable} {
			fmt.Fprint(w, "\t", capacity.Bytes(n))
		}
		fmt.Fprint(w, "\t\n")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.printRefused(out)
}
