package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/ridge-llm/ridge/price/capacity"
)

// draw plots throughput against latency: a line for each layout, along growing numbers of sequences.
func (r *planReport) draw(file string) error {
	if err := checkChart(file); err != nil {
		return err
	}
	if r.Workload == nil {
		return fmt.Errorf("--plot shows serving; with --train there is nothing to plot")
	}
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s, %d prompt tokens, %d output tokens", r.Model, r.Workload.Input, r.Workload.Output)
	p.X.Label.Text = "time between tokens, ms"
	if r.Batches != nil {
		p.X.Label.Text += " (labels: batch size)"
	}
	p.Y.Label.Text = "output tokens/s for each device"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, steps125{}
	p.Y.Min = 0
	p.Legend.Padding = vg.Points(2)
	p.Add(plotter.NewGrid())
	drawn := 0
	for _, row := range r.Rows {
		if row.setup == nil || row.MaxBatch == 0 || drawn == maxLines {
			continue
		}
		line, points, err := plotter.NewLinePoints(r.curve(row))
		if err != nil {
			return err
		}
		line.Color, points.Color = plotutil.Color(drawn), plotutil.Color(drawn)
		line.Dashes, points.Shape = plotutil.Dashes(drawn/7), plotutil.Shape(drawn)
		p.Add(line, points)
		p.Legend.Add(row.Device+" "+row.Layout.String(), line, points)
		if r.Batches != nil { // a single line has room to name its points
			if err := nameSizes(p, r.Batches, points.XYs); err != nil {
				return err
			}
		}
		drawn++
	}
	if drawn == 0 {
		return errNothingToDraw
	}
	if r.SLO.ITL > 0 {
		limit, err := plotter.NewLine(plotter.XYs{{X: r.SLO.ITL * 1e3, Y: p.Y.Min}, {X: r.SLO.ITL * 1e3, Y: p.Y.Max}})
		if err != nil {
			return err
		}
		limit.Color, limit.Dashes = color.Gray{100}, []vg.Length{vg.Points(4), vg.Points(4)}
		p.Add(limit)
		p.Legend.Add("limit", limit)
	}
	p.Y.Max *= 1.05
	if drawn > 2 {
		p.X.Max *= 2.5 // room for the names, right of the curves
	}
	return saveChart(p, 22*vg.Centimeter, 14*vg.Centimeter, file)
}

// nameSizes writes the number of sequences beside each point.
func nameSizes(p *plot.Plot, sizes []capacity.Estimate, at plotter.XYs) error {
	names := plotter.XYLabels{}
	for i, xy := range at {
		if i < len(sizes) && sizes[i].ITL*1e3 == xy.X {
			names.XYs, names.Labels = append(names.XYs, xy), append(names.Labels, fmt.Sprint(sizes[i].Batch))
		}
	}
	labels, err := plotter.NewLabels(names)
	if err == nil {
		labels.Offset = vg.Point{X: vg.Points(5), Y: vg.Points(-11)}
		for i := range labels.TextStyle {
			labels.TextStyle[i].Font.Variant = "Sans"
		}
		p.Add(labels)
	}
	return err
}

// maxLines is how many layouts a plot shows: the best.
const maxLines = 10

// curve is throughput of a device against time between tokens.
func (r *planReport) curve(row planRow) plotter.XYs {
	var xys plotter.XYs
	add := func(e capacity.Estimate) {
		xys = append(xys, plotter.XY{X: e.ITL * 1e3, Y: e.Rate / float64(row.Layout.Devices())})
	}
	most := row.setup.MostUseful(*r.Workload)
	for n := 1; n < most; n *= 2 {
		add(row.setup.Estimate(*r.Workload, n))
		if last := len(xys) - 1; last > 0 && xys[last].Y < xys[last-1].Y {
			return xys // steps so full of answers that they have no room for prompts: more sequences give less
		}
	}
	add(row.setup.Estimate(*r.Workload, most))
	return xys
}
