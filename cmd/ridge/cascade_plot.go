package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// namedPoints is how many thresholds have their numbers beside them in a plot, about.
const namedPoints = 8

// draw plots quality against time: a point for each threshold.
func (r *tuneReport) draw(file string) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s before %s, %d prompts", r.Small, r.Large, len(r.Prompts))
	p.X.Label.Text = "s an answer (labels: threshold)"
	p.Y.Label.Text = "quality"
	p.Legend.Padding = vg.Points(2)
	p.Legend.Top, p.Legend.Left = false, false
	p.Add(plotter.NewGrid())
	var line plotter.XYs
	names := plotter.XYLabels{}
	every := max(1, len(r.Points)/namedPoints)
	for i, x := range r.Points {
		at := plotter.XY{X: x.Seconds, Y: x.Quality}
		if line = append(line, at); i%every == 0 || i == len(r.Points)-1 {
			names.XYs, names.Labels = append(names.XYs, at), append(names.Labels, fmt.Sprintf("%.2f", x.Threshold))
		}
	}
	curve, points, err := plotter.NewLinePoints(line)
	if err != nil {
		return err
	}
	curve.Color, points.Color, points.Shape = plotutil.Color(1), plotutil.Color(1), draw.CircleGlyph{}
	labels, err := plotter.NewLabels(names)
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: vg.Points(5), Y: vg.Points(-11)}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Variant = "Sans"
	}
	p.Add(curve, points, labels)
	p.Legend.Add("thresholds", curve, points)
	for _, mark := range []struct {
		name  string
		at    plotter.XY
		shape draw.GlyphDrawer
		color color.Color
	}{
		{"large model alone", plotter.XY{X: r.Alone.Seconds, Y: r.Alone.Quality}, draw.BoxGlyph{}, color.Gray{80}},
		{fmt.Sprintf("chosen: %.2f", r.Threshold), plotter.XY{X: r.Chosen.Seconds, Y: r.Chosen.Quality}, draw.RingGlyph{}, plotutil.Color(0)},
	} {
		s, err := plotter.NewScatter(plotter.XYs{mark.at})
		if err != nil {
			return err
		}
		s.Shape, s.Color, s.Radius = mark.shape, mark.color, vg.Points(5)
		p.Add(s)
		p.Legend.Add(mark.name, s)
	}
	p.X.Min = 0
	p.X.Max *= 1.1
	room := (p.Y.Max - p.Y.Min) / 10
	p.Y.Min, p.Y.Max = p.Y.Min-room, p.Y.Max+room
	return saveChart(p, 18*vg.Centimeter, 12*vg.Centimeter, file)
}
