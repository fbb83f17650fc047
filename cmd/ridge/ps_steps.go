package main

import (
	"context"
	"encoding/json"
	"fmt"
	"github.com/ridge-llm/ridge"
	"io"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"
)

// askSteps asks a server of Ridge's for its latest steps.
func askSteps(ctx context.Context, server string, n int) ([]ridge.Step, error) {
	var list struct {
		Steps []ridge.Step `json:"steps"`
	}
	err := askServer(ctx, server, "/steps?n="+url.QueryEscape(strconv.Itoa(n)), &list)
	return list.Steps, err
}

// showSteps prints a server's latest steps.
func showSteps(ctx context.Context, out io.Writer, server string, n int, asJSON bool) error {
	steps, err := askSteps(ctx, server, n)
	switch {
	case err != nil:
		return err
	case asJSON:
		return json.NewEncoder(out).Encode(steps)
	}
	return printSteps(out, steps)
}

// printSteps writes steps as a table: what each was, what it was predicted to take, what it took, and how far that is off.
func printSteps(out io.Writer, steps []ridge.Step) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "AT\tREQUESTS\tTOKENS\tCACHE ROWS\tPREDICTED\tACTUAL\tOFF\tHOST\t")
	for _, s := range steps {
		predicted, off := "-", "-"
		if s.Predicted > 0 && s.Actual > 0 {
			predicted = millis(s.Predicted)
			off = fmt.Sprintf("%+.0f %%", 100*(float64(s.Predicted)/float64(s.Actual)-1))
		}
		fmt.Fprintf(w, "%.3f s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t\n", s.At.Seconds(), s.Requests, s.Tokens, s.Rows, predicted, millis(s.Actual), off, millis(s.Host))
	}
	return w.Flush()
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3) }
