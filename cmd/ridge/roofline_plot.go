package main

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/ridge-llm/ridge/price"
)

// draw writes the chart of all steps: a roof for each number format and memory level, a mark for each operation, whose size
// does not matter and whose letter is the table's.
func (r *rooflineReport) draw(file string) error {
	if ext := strings.ToLower(filepath.Ext(file)); ext != ".png" && ext != ".svg" {
		return fmt.Errorf("--plot %s: its name must end in .png or .svg", file)
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
	return p.Save(26*vg.Centimeter, 17*vg.Centimeter, file)
}

// drawRoofs draws and names the device's limits.
func (r *rooflineReport) drawRoofs(p *plot.Plot) error {
	grey := color.Gray{90}
	line := func(from, to plotter.XY, dashes []vg.Length) error {
		l, err := plotter.NewLine(plotter.XYs{from, to})
		if err == nil {
			l.Color, l.Dashes = grey, dashes
			p.Add(l)
		}
		return err
	}
	peak, names := 0.0, plotter.XYLabels{}
	label := func(x, y float64, text string) {
		names.XYs, names.Labels = append(names.XYs, plotter.XY{X: x, Y: y}), append(names.Labels, text)
	}
	rates := map[float64][]string{} // formats of one rate share a roof
	for _, n := range price.Numbers {
		if rate := r.profile.FLOPs[n]; rate > 0 {
			rates[rate] = append(rates[rate], string(n))
			peak = max(peak, rate)
		}
	}
	memory := r.profile.Memory().Rate
	last := 0.0
	var order []float64
	for rate := range rates {
		order = append(order, rate)
	}
	slices.Sort(order)
	for _, rate := range order {
		if err := line(plotter.XY{X: max(rate/memory/4, p.X.Min), Y: rate}, plotter.XY{X: p.X.Max, Y: rate}, nil); err != nil {
			return err
		}
		if rate > 1.25*last { // names of roofs that all but touch would lie on one another
			label(p.X.Max/12, rate*1.06, strings.Join(rates[rate], ", ")+" "+price.Rate(rate)+"FLOP/s")
			last = rate
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
		if err := line(start(p, l.Rate), plotter.XY{X: peak / l.Rate, Y: peak}, dashes); err != nil {
			return err
		}
		y := max(p.Y.Min*math.Pow(10, 0.15+0.25*float64(i)), p.X.Min*l.Rate) // one above the other, as the lines may be close
		label(y/l.Rate*1.15, y, l.Name+" "+price.Rate(l.Rate)+"B/s")
	}
	if ridge := peak / memory; ridge < p.X.Max {
		label(max(ridge/14, p.X.Min), peak*1.06, fmt.Sprintf("ridge point %.0f", ridge))
	}
	text, err := plotter.NewLabels(names)
	if err == nil {
		p.Add(text)
	}
	return err
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
	text, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	for k := range text.TextStyle {
		text.TextStyle[k].Color = plotutil.Color(i)
	}
	p.Add(text)
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
