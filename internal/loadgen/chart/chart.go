// Package chart draws the report of a load test. It is apart from loadgen so that the library does not need the packages that draw.
package chart

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/ridge-llm/ridge/internal/loadgen"
)

const (
	plotWidth  = 14 * vg.Inch
	plotHeight = 4.5 * vg.Inch
	plotDPI    = 110
)

// ink is the colour of curves, and faint of lines that mark medians and bounds.
var (
	ink   = color.RGBA{0x1f, 0x5f, 0xa8, 0xff}
	faint = color.RGBA{0xb0, 0x50, 0x30, 0xff}
)

// Check refuses files of formats that Write does not draw.
func Check(path string) error {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".png", ".svg":
		return nil
	default:
		return fmt.Errorf("chart: %s would be a plot in format %q; .png and .svg are possible", path, ext)
	}
}

// Write draws the distributions of TTFT and ITL, and throughput over time, to a .png or .svg file.
func Write(r *loadgen.Report, path string) error {
	if err := Check(path); err != nil {
		return err
	}
	panels, err := panelsOf(r)
	if err != nil {
		return err
	}
	var canvas interface {
		vg.CanvasWriterTo
		vg.CanvasSizer
	}
	if strings.ToLower(filepath.Ext(path)) == ".svg" {
		canvas = vgsvg.New(plotWidth, plotHeight)
	} else {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(plotDPI))}
	}
	tiles := draw.Tiles{Rows: 1, Cols: len(panels), PadX: 24, PadTop: 10, PadBottom: 8, PadLeft: 8, PadRight: 14}
	for i, c := range plot.Align([][]*plot.Plot{panels}, tiles, draw.New(canvas))[0] {
		panels[i].Draw(c)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// panelsOf is the plots, from left to right.
func panelsOf(r *loadgen.Report) ([]*plot.Plot, error) {
	var ttft, itl []time.Duration
	for i := range r.Records {
		if x := &r.Records[i]; x.Sent() && x.Err == nil {
			ttft, itl = append(ttft, x.TTFT), append(itl, x.Gaps...)
		}
	}
	a, err := distribution("Time to first token", ttft)
	if err != nil {
		return nil, err
	}
	b, err := distribution("Time between tokens", itl)
	if err != nil {
		return nil, err
	}
	c, err := throughput(r)
	return []*plot.Plot{a, b, c}, err
}

// distribution is the cumulative distribution of times, on a logarithmic axis.
func distribution(title string, values []time.Duration) (*plot.Plot, error) {
	p := newPanel(title, "milliseconds", "fraction of all")
	p.Y.Min, p.Y.Max = 0, 1
	if len(values) == 0 {
		p.Title.Text += " (none)"
		return p, nil
	}
	slices.Sort(values)
	points := make(plotter.XYs, 0, len(values)+1)
	for i, v := range values {
		points = append(points, plotter.XY{X: max(ms(v), 0.001), Y: float64(i+1) / float64(len(values))})
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
	// Pieces that arrive in one packet have next to no time between them, and would take up half of the axis.
	p.X.Min, p.X.Max = max(points[0].X/1.1, ms(loadgen.Quantile(values, 0.5))/50), points[len(points)-1].X*1.1
	points = slices.DeleteFunc(points, func(xy plotter.XY) bool { return xy.X < p.X.Min })
	for i, q := range []float64{0.5, 0.99} {
		x := max(ms(loadgen.Quantile(values, q)), 0.001)
		if err := addLine(p, plotter.XYs{{X: x, Y: 0}, {X: x, Y: 1}}, faint, 0.7); err != nil {
			return nil, err
		}
		if err := addLabel(p, x, 0.02+0.07*float64(i), fmt.Sprintf(" p%.0f %.4g ", 100*q, x)); err != nil {
			return nil, err
		}
	}
	return p, addLine(p, points, ink, 1.8)
}

// throughput is output tokens a second over the time of the run.
func throughput(r *loadgen.Report) (*plot.Plot, error) {
	p := newPanel("Throughput", "seconds", "output tokens/s")
	p.Y.Min = 0
	const most = 60 // steps that can be told apart
	width := max(r.Seconds/most, 0.25)
	counts := make([]float64, int(r.Seconds/width)+1)
	for i := range r.Records {
		x := &r.Records[i]
		if x.TTFT == 0 {
			continue
		}
		each := float64(x.Output) / float64(len(x.Gaps)+1)
		at := (x.At + x.Late + x.TTFT).Seconds()
		counts[min(int(at/width), len(counts)-1)] += each
		for _, g := range x.Gaps {
			at += g.Seconds()
			counts[min(int(at/width), len(counts)-1)] += each
		}
	}
	points := make(plotter.XYs, len(counts))
	for i, n := range counts {
		points[i] = plotter.XY{X: (float64(i) + 0.5) * width, Y: n / width}
	}
	return p, addLine(p, points, ink, 1.8)
}

func newPanel(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = 6
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font.Variant = "Sans"
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
	return p
}

func addLine(p *plot.Plot, points plotter.XYs, c color.Color, width vg.Length) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = c, width
	p.Add(line)
	return nil
}

// addLabel writes beside a marked time, on the side where there is room.
func addLabel(p *plot.Plot, x, y float64, words string) error {
	label, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: y}}, Labels: []string{words}})
	if err != nil {
		return err
	}
	label.TextStyle[0].Font.Variant = "Sans"
	if x*x > p.X.Min*p.X.Max { // right of the middle of a logarithmic axis
		label.TextStyle[0].XAlign = draw.XRight
	}
	p.Add(label)
	return nil
}

// logTicks marks powers of ten, or 1, 2 and 5 times them, or more multiples: the fewest that leave no large part of the axis without a label; and
// round numbers at equal distances on an axis that all of them leave empty.
type logTicks struct{}

// Ticks implements plot.Ticker.
func (logTicks) Ticks(low, high float64) []plot.Tick {
	const fewest, bare = 3, 0.4
	for _, multiples := range [][]float64{{1}, {1, 2, 5}, {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8}} {
		var ticks []plot.Tick
		last, gap := low, 1.0 // the largest factor between neighbours, ends included
		for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
			for _, m := range multiples {
				if x := m * power; x >= low && x <= high {
					ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprintf("%.4g", x)})
					last, gap = x, max(gap, x/last)
				}
			}
		}
		if len(ticks) >= fewest && math.Log(max(gap, high/last)) <= bare*math.Log(high/low) {
			return ticks
		}
	}
	return plot.DefaultTicks{}.Ticks(low, high)
}

func ms(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
