package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// checkChart refuses names of files that saveChart does not write.
func checkChart(file string) error {
	if ext := strings.ToLower(filepath.Ext(file)); ext != ".png" && ext != ".svg" {
		return fmt.Errorf("--plot %s: its name must end in .png or .svg", file)
	}
	return nil
}

// saveChart draws a plot on white with a margin, in letters without serifs, to a .png or .svg file.
func saveChart(p *plot.Plot, w, h vg.Length, file string) error {
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		f.Variant = "Sans"
	}
	p.Title.Padding = vg.Points(6)
	c, err := draw.NewFormattedCanvas(w, h, strings.ToLower(filepath.Ext(file))[1:])
	if err != nil {
		return fmt.Errorf("--plot %s: %w", file, err)
	}
	const margin = 10
	whole := draw.New(c)
	whole.FillPolygon(p.BackgroundColor, []vg.Point{{}, {X: w}, {X: w, Y: h}, {Y: h}})
	p.Draw(draw.Crop(whole, margin, -margin, margin, -margin))
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	if _, err := c.WriteTo(out); err != nil {
		out.Close()
		return fmt.Errorf("--plot %s: %w", file, err)
	}
	return out.Close()
}

// steps125 are ticks of a logarithmic axis that spans few powers of ten: 1, 2 and 5 times each.
type steps125 struct{}

// Ticks implements plot.Ticker.
func (steps125) Ticks(low, high float64) []plot.Tick {
	var all []plot.Tick
	for e := math.Floor(math.Log10(low)); math.Pow(10, e) <= high; e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < low || v > high {
				continue
			}
			label := ""
			if m == 1 || m == 2 || m == 5 {
				label = fmt.Sprintf("%g", v)
			}
			all = append(all, plot.Tick{Value: v, Label: label})
		}
	}
	return all
}
