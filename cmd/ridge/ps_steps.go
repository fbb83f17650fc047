package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/ridge-llm/ridge"
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

// printSteps writes steps as a table: what each was, what it was predicted to take, what it took, and how far that is off; if any verified drafts,
// by which drafter, how long, how many were accepted, and what they were expected to gain.
func printSteps(out io.Writer, steps []ridge.Step) error {
	w := tabwriter.NewWriter(heading(out), 0, 0, 2, ' ', tabwriter.AlignRight)
	drafts := slices.ContainsFunc(steps, func(s ridge.Step) bool { return s.Drafts > 0 })
	head := "AT\tREQUESTS\tTOKENS\tCACHE ROWS\tPREDICTED\tACTUAL\tOFF\tHOST\t"
	if drafts {
		head += "DRAFTER\tDRAFTS\tLONGEST\tACCEPTED\tGAIN\t"
	}
	fmt.Fprintln(w, head)
	for _, s := range steps {
		predicted, off := "-", "-"
		if s.Predicted > 0 && s.Actual > 0 {
			predicted = millis(s.Predicted)
			off = fmt.Sprintf("%+.0f %%", 100*(float64(s.Predicted)/float64(s.Actual)-1))
		}
		fmt.Fprintf(w, "%.3f s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t", s.At.Seconds(), s.Requests, s.Tokens, s.Rows, predicted, millis(s.Actual), off, millis(s.Host))
		if drafts {
			fmt.Fprint(w, draftColumns(s))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// draftColumns is what a table says of a step's drafts.
func draftColumns(s ridge.Step) string {
	if s.Drafts == 0 {
		return "-\t-\t-\t-\t-\t"
	}
	kind, gain := "", "-"
	if s.DraftTrees > 0 {
		kind = " (trees)"
	}
	if s.ExpectedGain > 0 {
		gain = fmt.Sprintf("%.2f", s.ExpectedGain)
	}
	return fmt.Sprintf("%s\t%d%s\t%d\t%d of %d\t%s\t", s.Drafter, s.Drafts, kind, s.LongestDraft, s.AcceptedTokens, s.DraftTokens, gain)
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3) }
