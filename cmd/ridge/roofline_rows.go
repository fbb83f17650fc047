package main

import (
	"fmt"
	"slices"

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
	m, err := price.New(g, r.profile)
	if err != nil {
		return err
	}
	steps := s.steps()
	for _, kind := range []string{"decode", "prefill"} {
		breakdown := m.Breakdown(steps[kind])
		if s.attention == "naive" {
			m.AddScoreTraffic(breakdown, steps[kind])
		}
		if s := r.step(kind, name, breakdown); !r.has(&s) {
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

// step sums a breakdown's lines by kind, the longest first.
func (r *rooflineReport) step(kind, name string, b *price.Breakdown) rooflineStep {
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
	if out, in, format, ok := n.Matrix(); ok {
		return fmt.Sprintf("%s %d×%d %s", name, out, in, format)
	}
	if n.Out[0].Cache != nil {
		return name + " " + n.Out[0].Cache.K.String()
	}
	return name + " " + n.Out[0].Axis.String()
}
