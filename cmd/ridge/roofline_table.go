package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// screen is how many characters a line of standard output has, and whether that is a terminal.
func screen() (width int, terminal bool) {
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
		return w, true
	}
	return plainWidth, false
}

// print prints the charts, the tables and the comparison.
func (r *rooflineReport) print(out io.Writer, chart bool) error {
	width, terminal := screen()
	source, _, _ := strings.Cut(r.profile.Source, ";") // details behind are in price/devices.json
	fmt.Fprintf(out, "%s on %s (%s)\n", r.Model, r.profile.Name, source)
	for _, s := range r.Steps {
		title := s.Name
		if s.Setting != "" {
			title += ", " + s.Setting
		}
		measured := ""
		if s.Measured > 0 {
			measured = fmt.Sprintf("measured %.3f ms, ", 1e3*s.Measured)
		}
		fmt.Fprintf(out, "\n%s: %.3f ms, %sat the roofline %.3f ms; %.2f GFLOP, %.2f MB; bound: %s\n", title, 1e3*s.Seconds, measured, 1e3*s.Floor, float64(s.FLOPs)/1e9, float64(s.Bytes)/1e6, s.Bound)
		if chart {
			fmt.Fprint(out, r.chart(&s, width))
		}
		if err := s.print(out, terminal && width < wideTable); err != nil {
			return err
		}
	}
	return r.printSides(out)
}

// wideTable is how many characters a line of the table may have.
const wideTable = 100

// print prints the table of a step, in fewer characters if it is to be narrow.
func (s *rooflineStep) print(out io.Writer, narrow bool) error {
	pad, head := 2, "\tcount\tGFLOP\tMB\tFLOP/byte\tbound\tµs\tshare\tof roof\t"
	if narrow {
		pad, head = 1, "\tn\tGFLOP\tMB\tFLOP/B\tbound\tµs\tshare\troof\t"
	}
	w := tabwriter.NewWriter(out, 0, 0, pad, ' ', tabwriter.AlignRight)
	measured := ""
	if s.Measured > 0 {
		measured = "measured µs\toff\tof roof\t"
	}
	fmt.Fprintf(w, "%s%s  operation\n", head, measured)
	for _, row := range s.Rows {
		if s.Measured > 0 {
			measured = fmt.Sprintf("%.1f\t%+.0f %%\t%.0f %%\t", 1e6*row.Measured, 100*(row.Seconds/max(row.Measured, 1e-9)-1), 100*row.MeasuredOfRoof)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.2f\t%s\t%.1f\t%.1f %%\t%.0f %%\t%s  %s\n", row.Letter, row.Count, short(float64(row.FLOPs)/1e9), short(float64(row.Bytes)/1e6),
			row.Intensity, row.Bound, 1e6*row.Seconds, 100*row.Share, 100*row.OfRoof, measured, row.Op)
	}
	return w.Flush()
}

// short is a number with about four digits, without an exponent.
func short(x float64) string {
	switch {
	case x >= 1000:
		return fmt.Sprintf("%.0f", x)
	case x >= 100:
		return fmt.Sprintf("%.1f", x)
	case x >= 10:
		return fmt.Sprintf("%.2f", x)
	case x >= 1:
		return fmt.Sprintf("%.3f", x)
	}
	return fmt.Sprintf("%.4f", x)
}

// printSides puts each step beside the one with the other setting, operation by operation.
func (r *rooflineReport) printSides(out io.Writer) error {
	for i := range r.Steps {
		for j := i + 1; j < len(r.Steps); j++ {
			if r.Steps[i].Name == r.Steps[j].Name {
				if err := printPair(out, &r.Steps[i], &r.Steps[j]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// printPair shows what a setting changes of a step. Operations of one shape in two formats are one line.
func printPair(out io.Writer, a, b *rooflineStep) error {
	times := func(x, y float64) string {
		if x == 0 || y == 0 {
			return ""
		}
		return fmt.Sprintf("× %.3g", y/x)
	}
	fmt.Fprintf(out, "\n%s, side by side with %s: %.3f → %.3f ms (%s), %.2f → %.2f MB (%s), %.2f → %.2f GFLOP (%s)\n", a.Name, b.Setting,
		1e3*a.Seconds, 1e3*b.Seconds, times(a.Seconds, b.Seconds), float64(a.Bytes)/1e6, float64(b.Bytes)/1e6, times(float64(a.Bytes), float64(b.Bytes)),
		float64(a.FLOPs)/1e9, float64(b.FLOPs)/1e9, times(float64(a.FLOPs), float64(b.FLOPs)))
	left, right := a.byShape(), b.byShape()
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "MB\tFLOP/B\tbound\tµs\t│\tMB\tFLOP/B\tbound\tµs\ttime\t operation\n")
	cells := func(row *rooflineRow) string {
		if row == nil {
			return "\t\t\t"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%.1f", short(float64(row.Bytes)/1e6), short(row.Intensity), row.Bound, 1e6*row.Seconds)
	}
	var shapes []string
	for _, row := range append(append([]rooflineRow{}, a.Rows...), b.Rows...) {
		shape := row.shape()
		if seen := left[shape] == nil && right[shape] == nil; seen {
			continue
		}
		x, y := left[shape], right[shape]
		delete(left, shape)
		delete(right, shape)
		ratio := ""
		if x != nil && y != nil {
			ratio = times(x.Seconds, y.Seconds)
		}
		shapes = append(shapes, fmt.Sprintf("%s\t│\t%s\t%s\t %s\n", cells(x), cells(y), ratio, shape))
	}
	fmt.Fprint(w, strings.Join(shapes, ""))
	return w.Flush()
}

// shape is the operation without its weights' format, and without its heads' number.
func (row *rooflineRow) shape() string {
	if words := strings.Fields(row.Op); len(words) == 3 && strings.Contains(words[1]+words[2], "×") {
		return words[0] + " " + words[1]
	}
	return row.Op
}

// byShape are the rows by their shape; of two formats that share one, summed.
func (s *rooflineStep) byShape() map[string]*rooflineRow {
	rows := map[string]*rooflineRow{}
	for _, row := range s.Rows {
		sum := rows[row.shape()]
		if sum == nil {
			rows[row.shape()] = &row
			continue
		}
		sum.FLOPs, sum.Bytes, sum.Seconds = sum.FLOPs+row.FLOPs, sum.Bytes+row.Bytes, sum.Seconds+row.Seconds
		sum.Intensity = float64(sum.FLOPs) / float64(max(sum.Bytes, 1))
	}
	return rows
}
