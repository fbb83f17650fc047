package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// rooflineReport is what roofline prints.
type rooflineReport struct {
	Model   string         `json:"model"`
	Device  string         `json:"device"`
	Steps   []rooflineStep `json:"steps"`
	profile *price.Profile
}

// rooflineStep is a priced step: its operations, those of one kind together.
type rooflineStep struct {
	Name    string        `json:"step"`              // decode or prefill
	Setting string        `json:"setting,omitempty"` // what was changed
	Seconds float64       `json:"seconds"`
	Floor   float64       `json:"floor_seconds"`
	FLOPs   int64         `json:"flops"`
	Bytes   int64         `json:"bytes"`
	Bound   string        `json:"bound"`
	Rows    []rooflineRow `json:"operations"`

	Measured float64 `json:"measured_seconds,omitempty"` // of all operations, one after the other
}

// rooflineRow is the operations of a step that have the same shape.
type rooflineRow struct {
	Letter    string  `json:"letter"` // in the chart
	Op        string  `json:"operation"`
	Count     int     `json:"count"`
	Number    string  `json:"number"`
	FLOPs     int64   `json:"flops"`
	Bytes     int64   `json:"bytes"`
	Intensity float64 `json:"flops_per_byte"`
	Bound     string  `json:"bound"`
	Seconds   float64 `json:"seconds"`
	Floor     float64 `json:"floor_seconds"`
	Share     float64 `json:"share"`
	OfRoof    float64 `json:"fraction_of_roof"`

	Measured       float64 `json:"measured_seconds,omitempty"`
	MeasuredOfRoof float64 `json:"measured_fraction_of_roof,omitempty"`
}

// add prices a setting's two steps.
func (r *rooflineReport) add(name, arg string, s *rooflineSetting) error {
	g, err := s.graph(arg, r.profile)
	if err != nil {
		return err
	}
	m, err := price.New(g, r.profile, nil)
	if err != nil {
		return err
	}
	steps := s.steps()
	for _, kind := range []string{"decode", "prefill"} {
		bill := m.Bill(steps[kind])
		if s.attention == "naive" {
			m.Unfuse(bill, steps[kind])
		}
		if s := r.step(kind, name, bill); !r.has(&s) {
			r.Steps = append(r.Steps, s)
		}
	}
	return nil
}

// has reports whether the step is there already: what was changed does not concern it.
func (r *rooflineReport) has(s *rooflineStep) bool {
	return slices.ContainsFunc(r.Steps, func(x rooflineStep) bool {
		return x.Name == s.Name && x.Seconds == s.Seconds && x.Bytes == s.Bytes
	})
}

// step sums a bill's lines by kind, the longest first.
func (r *rooflineReport) step(kind, name string, b *price.Bill) rooflineStep {
	s := rooflineStep{Name: kind, Setting: name, Seconds: b.Seconds, Floor: b.Floor, FLOPs: b.Work.FLOPs, Bytes: b.Work.Bytes(), Bound: b.Bound().String()}
	at := map[string]int{}
	for i := range b.Lines {
		l := &b.Lines[i]
		op := opName(l.Node)
		k, ok := at[op]
		if !ok {
			k = len(s.Rows)
			at[op] = k
			s.Rows = append(s.Rows, rooflineRow{Op: op, Number: string(l.Number), Bound: l.Bound.String(), Intensity: l.Intensity})
			if l.Bound == price.Memory {
				s.Rows[k].Bound = b.Levels[l.Level].Name
			}
		}
		row := &s.Rows[k]
		row.Count++
		row.FLOPs += l.Work.FLOPs
		row.Bytes += l.Work.Bytes()
		row.Seconds += l.Seconds
		row.Floor += l.Floor
	}
	slices.SortStableFunc(s.Rows, func(a, b rooflineRow) int {
		if a.Seconds > b.Seconds {
			return -1
		}
		return 1
	})
	for i := range s.Rows {
		row := &s.Rows[i]
		row.Letter = letter(i)
		row.Share = row.Seconds / b.Seconds
		if row.Seconds > 0 {
			row.OfRoof = row.Floor / row.Seconds
		}
	}
	return s
}

// letter is the mark of the i-th operation: a to z, then none.
func letter(i int) string {
	if i > 25 {
		return ""
	}
	return string(rune('a' + i))
}

// opName is a node with its shape.
func opName(n *graph.Node) string {
	name := n.Op.Name()
	switch {
	case len(n.Weights) > 0 && n.Weights[0].Out.Len() > 1:
		return fmt.Sprintf("%s %d×%d %s", name, n.Weights[0].Out.Len(), n.Weights[0].In.Len(), n.Weights[0].Format)
	case n.Out[0].Cache != nil:
		return name + " " + n.Out[0].Cache.K.String()
	}
	return name + " " + n.Out[0].Axis.String()
}

// print prints the charts and the tables.
func (r *rooflineReport) print(out io.Writer, chart bool) error {
	fmt.Fprintf(out, "%s on %s (%s)\n", r.Model, r.profile.Name, r.profile.Source)
	for _, s := range r.Steps {
		title := s.Name
		if s.Setting != "" {
			title += ", " + s.Setting
		}
		measured := ""
		if s.Measured > 0 {
			measured = fmt.Sprintf("measured %.3f ms, ", 1e3*s.Measured)
		}
		fmt.Fprintf(out, "\n%s: %.3f ms, %sat the roofline %.3f ms; %.2f GFLOP, %.2f MB; waits for %s\n", title, 1e3*s.Seconds, measured, 1e3*s.Floor, float64(s.FLOPs)/1e9, float64(s.Bytes)/1e6, s.Bound)
		if chart {
			fmt.Fprint(out, r.chart(&s))
		}
		if err := s.print(out); err != nil {
			return err
		}
	}
	return nil
}

// print prints the table of a step.
func (s *rooflineStep) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	measured := ""
	if s.Measured > 0 {
		measured = "measured µs\toff\tof roof\t"
	}
	fmt.Fprintf(w, "\tcount\tGFLOP\tMB\tFLOP/byte\tbound\tµs\tshare\tof roof\t%s  operation\n", measured)
	for _, row := range s.Rows {
		if s.Measured > 0 {
			measured = fmt.Sprintf("%.1f\t%+.0f %%\t%.0f %%\t", 1e6*row.Measured, 100*(row.Seconds/max(row.Measured, 1e-9)-1), 100*row.MeasuredOfRoof)
		}
		fmt.Fprintf(w, "%s\t%d\t%.4f\t%.3f\t%.2f\t%s\t%.1f\t%.1f %%\t%.0f %%\t%s  %s\n", row.Letter, row.Count, float64(row.FLOPs)/1e9, float64(row.Bytes)/1e6,
			row.Intensity, row.Bound, 1e6*row.Seconds, 100*row.Share, 100*row.OfRoof, measured, row.Op)
	}
	return w.Flush()
}
