package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ridge-llm/ridge/bench/throughput"
)

// print prints the report for people.
func (r *benchReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s on %s; at most ", r.Model, r.Device)
	for _, peak := range []struct {
		rate       float64
		unit, name string
	}{{r.Peaks.Int8, "Gop/s", "int8"}, {r.Peaks.FP8, "GFLOP/s", "fp8"}, {r.Peaks.BF16, "GFLOP/s", "bf16"}, {r.Peaks.F32, "GFLOP/s", "f32"}} {
		if peak.rate > 0 {
			fmt.Fprintf(out, "%.0f %s %s, ", peak.rate/1e9, peak.unit, peak.name)
		}
	}
	fmt.Fprintf(out, "%.1f GB/s read\n", r.Peaks.Read/1e9)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Rows) > 0 {
		fmt.Fprint(w, "test\tbatch\ttokens/s\tlowest\thighest\tlimit\tof limit\tpredicted\toff\t")
		if slices.ContainsFunc(r.Rows, func(row throughput.Row) bool { return row.Layers > 0 }) {
			fmt.Fprint(w, "layers a token\t")
		}
		fmt.Fprintln(w)

	}
	for _, row := range r.Rows {
		predicted := "\t"
		if row.Predicted > 0 {
			predicted = fmt.Sprintf("%.1f\t%+.0f %%", row.Predicted, 100*(row.Predicted/row.Median-1))
		}
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f %%\t%s\t", row.Name(), row.Batch, row.Median, row.Low, row.High, row.Limit, 100*row.Fraction, predicted)
		if row.Layers > 0 {
			fmt.Fprintf(w, "%.2f\t", row.Layers)
		}
		fmt.Fprintln(w)
	}
	if err := r.printCached(w); err != nil {
		return err
	}
	for _, o := range r.Ops {
		fmt.Fprintf(w, "%s, batch %d\tlaunches\tµs\tshare\tof limit\t\n", o.Name, o.Test.Batch)
		for _, op := range o.Ops {
			fmt.Fprintf(w, "%s  %s\t%d\t%.1f\t%.1f %%\t%.0f %%\t\n", op.Kernel, op.Shape, op.Count,
				float64(op.Took)/float64(time.Microsecond), 100*op.Share, 100*op.Fraction)
		}
	}
	return w.Flush()
}

// printCached explains rows above their limit, which is that of the memory.
func (r *benchReport) printCached(w *tabwriter.Writer) error {
	if !slices.ContainsFunc(r.Rows, func(row throughput.Row) bool { return row.Fraction > 1 }) {
		return nil
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "above 100 %: a model this small stays in the processor's caches, and the limit is that of the memory as it was read just before")
	return err
}
