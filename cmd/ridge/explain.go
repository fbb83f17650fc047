package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ridge-llm/ridge"
)

// printExplanation prints where the time of an answer went.
func printExplanation(out io.Writer, x ridge.Explanation) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, p := range x.Parts {
		fmt.Fprintf(w, "%s\t%.2f ms\t%.1f %%\t\n", p.What, 1e3*p.Seconds, 100*p.Share)
	}
	fmt.Fprintf(w, "total\t%.2f ms\t\t\n", 1e3*x.Wall)
	fmt.Fprintf(w, "roofline\t%.2f ms\t%.1f %%\t\n", 1e3*x.Floor, 100*x.Floor/max(x.Wall, 1e-9))
	if x.Idle > 0 {
		fmt.Fprintf(w, "stages without a step (bubbles)\t%.2f ms\t%.1f %%\t\n", 1e3*x.Idle, 100*x.Idle/max(x.Wall, 1e-9))
	}
	if x.Stranded > 0 {
		fmt.Fprintf(w, "%d more tokens were cached, without the state or the window to go on from them\t\t\t\n", x.Stranded)
	}
	for _, kept := range []struct {
		tokens int
		where  string
	}{{x.CachedHost, "host memory"}, {x.CachedDisk, "disk"}, {x.CachedShared, "the shared folder"}, {x.CachedPeer, "another server"}} {
		if kept.tokens > 0 {
			fmt.Fprintf(w, "%d of the cached tokens came from %s\t\t\t\n", kept.tokens, kept.where)
		}
	}
	if x.Cached > 0 {
		fmt.Fprintf(w, "saved by %d cached tokens\t%.2f ms\t\t\n", x.Cached, 1e3*x.Saved)
	}
	if x.Steps > 0 {
		fmt.Fprintf(w, "%d tokens found in %d steps\t\t\t\n", x.Output, x.Steps)
	}
	if x.Drafted > 0 {
		fmt.Fprintf(w, "%d of %d drafted tokens accepted\t\t%.1f %%\t\n", x.Accepted, x.Drafted, 100*float64(x.Accepted)/float64(x.Drafted))
	}
	w.Flush()
}
