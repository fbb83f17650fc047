package main

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// draw plots speed against memory: a point for each way, with the loss where it was measured, and a line through those that none beats.
func (r *quantReport) draw(file string) error {
	if err := checkChart(file); err != nil {
		return err
	}
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s on %s %s", r.Model, r.Device, r.Layout)
	p.X.Label.Text = "weights of a device, GiB"
	p.Y.Label.Text = "output tokens/s of one sequence"
	p.Add(plotter.NewGrid())
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row quantRow) bool { return row.Why != "" })
	if len(rows) == 0 {
		return errNothingToDraw
	}
	slices.SortFunc(rows, func(a, b quantRow) int { return cmp.Compare(a.Weights, b.Weights) })
	var front, others plotter.XYs
	var above, below plotter.XYLabels // the points of each
	for _, row := range rows {
		at := plotter.XY{X: float64(row.Weights) / (1 << 30), Y: row.Decode}
		if row.Pareto {
			front = append(front, at)
			addLabel(&above, at, row.label(), rows)
		} else {
			others = append(others, at)
			addLabel(&below, at, row.label(), rows)
		}
	}
	line, points, err := plotter.NewLinePoints(front)
	if err != nil {
		return err
	}
	line.Color, line.Dashes = plotutil.Color(0), []vg.Length{vg.Points(3), vg.Points(3)}
	points.Color, points.Shape, points.Radius = plotutil.Color(0), draw.CircleGlyph{}, vg.Points(4)
	p.Add(line, points)
	p.Legend.Add("Pareto optimal", line, points)
	if len(others) > 0 {
		s, err := plotter.NewScatter(others)
		if err != nil {
			return err
		}
		s.Color, s.Shape, s.Radius = color.Gray{120}, draw.RingGlyph{}, vg.Points(4)
		p.Add(s)
		p.Legend.Add("beaten by another", s)
	}
	for i, names := range []plotter.XYLabels{above, below} {
		labels, err := plotter.NewLabels(names)
		if err != nil {
			return err
		}
		labels.Offset = vg.Point{X: vg.Points(7), Y: vg.Points(3 - 16*float64(i))}
		for j := range labels.TextStyle {
			labels.TextStyle[j].Font.Variant = "Sans"
		}
		p.Add(labels)
	}
	p.Legend.Top, p.Legend.Padding = true, vg.Points(2)
	p.X.Min, p.Y.Min = 0, 0
	p.X.Max, p.Y.Max = 1.25*p.X.Max, 1.1*p.Y.Max // room for the names
	return saveChart(p, 22*vg.Centimeter, 14*vg.Centimeter, file)
}

// addLabel adds the label of a point, or adds it to that of one so near that it would be written over it. rows are ordered by X.
func addLabel(names *plotter.XYLabels, at plotter.XY, label string, rows []quantRow) {
	width := float64(rows[len(rows)-1].Weights) / (1 << 30)
	fastest := slices.MaxFunc(rows, func(a, b quantRow) int { return cmp.Compare(a.Decode, b.Decode) }).Decode
	const near = 0.02
	for i, other := range names.XYs {
		if at.X-other.X < near*width && math.Abs(at.Y-other.Y) < near*fastest {
			names.Labels[i] += "; " + label
			return
		}
	}
	names.XYs, names.Labels = append(names.XYs, at), append(names.Labels, label)
}

// label is the name of a way, with what it costs where that was measured.
func (b *quantRow) label() string {
	switch {
	case !b.measured:
		return b.Name
	case b.Quality.Against != nil:
		return fmt.Sprintf("%s, KL %.4f", b.Name, b.loss)
	}
	return fmt.Sprintf("%s, perplexity %.3f", b.Name, b.Quality.Perplexity)
}
