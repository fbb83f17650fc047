package loadgen

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// lateLimit is how late, in milliseconds, the generator may send its requests (99 of 100) before its report says that it did
// not keep the pace.
const lateLimit = 20

// Print prints the report for people.
func (r *Report) Print(out io.Writer) error {
	how := "as they come"
	if r.Concurrency > 0 {
		how = fmt.Sprintf("%d at once", r.Concurrency)
	}
	fmt.Fprintf(out, "%s, model %s: %s, %s\n", r.URL, r.Model, r.Trace, how)
	fmt.Fprintf(out, "%d of %d requests answered in %.1f s, %d lost", r.Completed, r.Requests, r.Seconds, r.Lost())
	if r.Unsent > 0 {
		fmt.Fprintf(out, ", %d not sent because the run was stopped", r.Unsent)
	}
	if r.Short > 0 {
		fmt.Fprintf(out, "; %d answers were shorter than asked for", r.Short)
	}
	fmt.Fprintf(out, "\n%.2f requests/s, %.1f input tokens/s (%.0f %% of them cached), %.1f output tokens/s\n",
		r.RequestRate, r.InputRate, 100*float64(r.Cached)/float64(max(r.Input, 1)), r.OutputRate)
	if err := r.printTimes(out); err != nil {
		return err
	}
	if r.ITL.P50 > 0 {
		fmt.Fprintf(out, "ITL p99 is %.1f times its median; %.2f tokens per event\n", r.ITL.P99/r.ITL.P50, r.PieceTokens)
	}
	if g := r.Goodput; g != nil {
		fmt.Fprintf(out, "goodput under %s: %.2f requests/s, %d requests (%.1f %%)\n", g.SLO, g.Rate, g.Met, 100*g.Fraction)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(out, "%d × %s\n", r.Errors[kind], kind)
	}
	if r.Example != "" {
		fmt.Fprintf(out, "the first error: %s\n", r.Example)
	}
	if r.Late.P99 > lateLimit {
		fmt.Fprintf(out, "the generator itself was late: 1 request in 100 was sent %.0f ms after its time; take a lower rate, or another machine for it\n", r.Late.P99)
	}
	return nil
}

// printTimes prints the table of times, without rows of which there is nothing: a simulation is never late.
func (r *Report) printTimes(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if r.Completed > 0 {
		fmt.Fprint(w, "ms\tmean\tp50\tp90\tp95\tp99\tmax\t\n")
	}
	for _, row := range []struct {
		name string
		s    Summary
	}{{"TTFT", r.TTFT}, {"ITL", r.ITL}, {"TPOT", r.TPOT}, {"end to end", r.E2E}, {"sent late", r.Late}} {
		if r.Completed > 0 && row.s.Max > 0 {
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", row.name, row.s.Mean, row.s.P50, row.s.P90, row.s.P95, row.s.P99, row.s.Max)
		}
	}
	return w.Flush()
}
