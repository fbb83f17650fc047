package main

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/ridge-llm/ridge/price"
)

// draw writes the chart of all steps: a roof for each number format and memory level, a mark for each operation, whose size
// does not matter and whose letter is the table's.
func (r *rooflineReport) draw(file string) error {
	if err := checkChart(file); err != nil {
		return err
	}
	w := r.window()
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s on %s", r.Model, r.profile.Name)
	p.X.Label.Text, p.Y.Label.Text = "FLOPs for each byte", "FLOP/s"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, decades{}
	p.X.Min, p.X.Max = math.Pow(10, w.left), math.Pow(10, w.right)
	p.Y.Min, p.Y.Max = math.Pow(10, w.bottom), math.Pow(10, w.top)
	p.Legend.Left, p.Legend.Top = false, false
	p.Legend.Padding = vg.Points(2)
	p.Add(plotter.NewGrid())
	if err := r.drawRoofs(p); err != nil {
		return err
	}
	for i := range r.Steps {
		if err := r.drawStep(p, i); err != nil {
			return err
		}
	}
	return saveChart(p, 28*vg.Centimeter, 19*vg.Centimeter, file)
}

// drawRoofs draws and names the device's limits, and marks where they meet.
func (r *rooflineReport) drawRoofs(p *plot.Plot) error {
	names, ridges := plotter.XYLabels{}, plotter.XYLabels{}
	name := func(to *plotter.XYLabels, x, y float64, text string) {
		to.XYs, to.Labels = append(to.XYs, plotter.XY{X: x, Y: y}), append(to.Labels, text)
	}
	roofs := roofsOf(r.profile)
	memory, peak := r.profile.Memory().Rate, roofs[len(roofs)-1].rate
	last := 0.0
	for _, f := range roofs {
		if err := drawRoof(p, plotter.XY{X: max(f.rate/fastest(r.profile), p.X.Min), Y: f.rate}, plotter.XY{X: p.X.Max, Y: f.rate}, nil); err != nil {
			return err
		}
		if f.rate > 1.25*last { // names of roofs that all but touch would lie on one another
			name(&names, p.X.Max, f.rate*1.06, f.names+" "+rated(f.rate, "FLOP/s"))
			if ridge := f.rate / memory; ridge > p.X.Min && ridge < p.X.Max {
				name(&ridges, ridge, f.rate*1.06, fmt.Sprintf("ridge %.3g ", ridge))
			}
			last = f.rate
		}
	}
	for i, l := range r.profile.Levels {
		if l.Rate == 0 {
			continue
		}
		dashes := []vg.Length{vg.Points(3), vg.Points(3)}
		if i == len(r.profile.Levels)-1 {
			dashes = nil
		}
		if err := drawRoof(p, start(p, l.Rate), plotter.XY{X: peak / l.Rate, Y: peak}, dashes); err != nil {
			return err
		}
		y := max(p.Y.Min*math.Pow(10, 0.15+0.25*float64(i)), p.X.Min*l.Rate) // one above the other, as the lines may be close
		name(&names, y/l.Rate*1.15, y, l.Name+" "+rated(l.Rate, "B/s"))
	}
	if err := drawNames(p, names, func(i int) text.XAlignment {
		if names.XYs[i].X == p.X.Max {
			return text.XRight
		}
		return text.XLeft
	}); err != nil || len(ridges.XYs) == 0 {
		return err
	}
	points := plotter.XYs{}
	for _, xy := range ridges.XYs {
		points = append(points, plotter.XY{X: xy.X, Y: xy.X * memory})
	}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: color.Gray{90}, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
	p.Add(dots)
	return drawNames(p, ridges, func(int) text.XAlignment { return text.XRight })
}

// drawRoof draws a limit.
func drawRoof(p *plot.Plot, from, to plotter.XY, dashes []vg.Length) error {
	l, err := plotter.NewLine(plotter.XYs{from, to})
	if err == nil {
		l.Color, l.Dashes = color.Gray{90}, dashes
		p.Add(l)
	}
	return err
}

// drawNames writes names, each with its place to its left, right or middle.
func drawNames(p *plot.Plot, names plotter.XYLabels, align func(i int) text.XAlignment) error {
	labels, err := plotter.NewLabels(names)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].XAlign, labels.TextStyle[i].Font.Variant = align(i), "Sans"
	}
	p.Add(labels)
	return nil
}

// start is where the line of a bandwidth enters the plot.
func start(p *plot.Plot, rate float64) plotter.XY {
	x := max(p.X.Min, p.Y.Min/rate)
	return plotter.XY{X: x, Y: x * rate}
}

// drawStep draws a step's operations, of which those that take longest are named in the legend.
func (r *rooflineReport) drawStep(p *plot.Plot, i int) error {
	s := &r.Steps[i]
	var marks plotter.XYs
	names := map[[2]int]string{}
	places := map[[2]int]plotter.XY{}
	for _, row := range s.Rows {
		if !row.drawn() {
			continue
		}
		x, y := row.at()
		at := plotter.XY{X: math.Pow(10, x), Y: math.Pow(10, y)}
		marks = append(marks, at)
		if row.Share < 0.01 {
			continue // a mark without a letter: those at the foot of a chart crowd
		}
		near := [2]int{int(x * 6), int(y * 8)} // letters that would overlap are written as one
		names[near] += row.Letter
		if places[near].X == 0 {
			below := math.Pow(0.9, float64(2*(i%2))) // of one step above its marks, of the other below
			places[near] = plotter.XY{X: at.X * 1.08, Y: at.Y * 1.04 * below}
		}
	}
	points, err := plotter.NewScatter(marks)
	if err != nil {
		return err
	}
	points.GlyphStyle = draw.GlyphStyle{Color: plotutil.Color(i), Radius: vg.Points(3.5), Shape: plotutil.Shape(i)}
	p.Add(points)
	title := fmt.Sprintf("%s %s %.3f ms", s.Name, s.Setting, 1e3*s.Seconds)
	p.Legend.Add(title, points)
	if err := s.drawMeasured(p, i); err != nil {
		return err
	}
	var labels plotter.XYLabels
	for near, name := range names {
		labels.XYs, labels.Labels = append(labels.XYs, places[near]), append(labels.Labels, name)
	}
	letters, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	for k := range letters.TextStyle {
		letters.TextStyle[k].Color, letters.TextStyle[k].Font.Variant = plotutil.Color(i), "Sans"
	}
	p.Add(letters)
	for _, row := range s.Rows[:min(4, len(s.Rows))] {
		p.Legend.Add(fmt.Sprintf("   %s  %.0f %%  %s", row.Letter, 100*row.Share, row.Op))
	}
	return nil
}

// drawMeasured draws what was measured: a ring at the end of a line from what was predicted.
func (s *rooflineStep) drawMeasured(p *plot.Plot, i int) error {
	var rings plotter.XYs
	for _, row := range s.Rows {
		if !row.drawn() || row.Measured <= 0 {
			continue
		}
		x, y := row.at()
		from, to := plotter.XY{X: math.Pow(10, x), Y: math.Pow(10, y)}, plotter.XY{X: math.Pow(10, x), Y: math.Pow(10, row.atMeasured())}
		line, err := plotter.NewLine(plotter.XYs{from, to})
		if err != nil {
			return err
		}
		line.Color = plotutil.Color(i)
		p.Add(line)
		rings = append(rings, to)
	}
	if len(rings) == 0 {
		return nil
	}
	points, err := plotter.NewScatter(rings)
	if err != nil {
		return err
	}
	points.GlyphStyle = draw.GlyphStyle{Color: plotutil.Color(i), Radius: vg.Points(5), Shape: draw.RingGlyph{}}
	p.Add(points)
	p.Legend.Add(fmt.Sprintf("measured %.3f ms", 1e3*s.Measured), points)
	return nil
}

// decades are ticks at powers of ten, with prefixes.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) []plot.Tick {
	var all []plot.Tick
	for e := math.Floor(math.Log10(low)); math.Pow(10, e) <= high; e++ {
		if v := math.Pow(10, e); v >= low {
			all = append(all, plot.Tick{Value: v, Label: price.Rate(v)})
		}
	}
	return all
}
