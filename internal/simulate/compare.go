package simulate

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/internal/trace"
)

// Compared is a figure of a real run beside the simulation's.
type Compared struct {
	What      string  `json:"what"`
	Measured  float64 `json:"measured"`
	Simulated float64 `json:"simulated"`
	Off       float64 `json:"off"`   // simulated / measured − 1
	Bound     float64 `json:"bound"` // that Off is to stay within
}

// Kept reports whether the simulation came near enough.
func (c *Compared) Kept() bool { return math.Abs(c.Off) <= c.Bound }

// How near a simulation has to come: issue 5's gate.
const (
	rateBound    = 0.10 // throughput
	latencyBound = 0.20 // medians and 95th percentiles of TTFT and ITL
)

// Compare puts what was simulated beside what was measured.
func Compare(measured, simulated *loadgen.Report) []Compared {
	var all []Compared
	add := func(what string, m, s, bound float64) {
		off := 0.0
		if m != s {
			off = s/max(m, 1e-9) - 1
		}
		all = append(all, Compared{what, m, s, off, bound})
	}
	add("output tokens/s", measured.OutputRate, simulated.OutputRate, rateBound)
	add("TTFT p50, ms", measured.TTFT.P50, simulated.TTFT.P50, latencyBound)
	add("TTFT p95, ms", measured.TTFT.P95, simulated.TTFT.P95, latencyBound)
	add("ITL p50, ms", measured.ITL.P50, simulated.ITL.P50, latencyBound)
	add("ITL p95, ms", measured.ITL.P95, simulated.ITL.P95, latencyBound)
	return all
}

// PrintComparison prints it for people, and reports whether all bounds were kept.
func PrintComparison(out io.Writer, all []Compared) (kept bool, err error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\tmeasured\tsimulated\toff\tmay be\t\n")
	kept = true
	for i := range all {
		c := &all[i]
		verdict := ""
		if !c.Kept() {
			verdict, kept = "missed", false
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%+.1f %%\t±%.0f %%\t%s\n", c.What, c.Measured, c.Simulated, 100*c.Off, 100*c.Bound, verdict)
	}
	return kept, w.Flush()
}

// AsSent is a trace as the clients of a real run sent it: when each request really went out, of how many tokens the server
// found its prompt, and how long the answer was. What prompts have in common is the trace's.
func AsSent(t *trace.Trace, r *loadgen.Report) (*trace.Trace, error) {
	if len(r.Records) != len(t.Requests) {
		return nil, fmt.Errorf("simulate: the report has %d requests and trace %s has %d; give the trace that the report is of (%s)", len(r.Records), t.Name, len(t.Requests), r.Trace)
	}
	sent := *t
	sent.Requests = append([]trace.Request(nil), t.Requests...)
	for i := range sent.Requests {
		x, q := &r.Records[i], &sent.Requests[i]
		if x.Err != nil || x.Input < 1 || x.Output < 1 {
			return nil, fmt.Errorf("simulate: request %d of the report was not answered (%v); only a run without failures can be compared", i, x.Err)
		}
		q.At, q.Input, q.Output, q.Prompt = x.At+x.Late, x.Input, x.Output, ""
	}
	return &sent, nil
}
