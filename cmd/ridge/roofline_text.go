package main

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/ridge-llm/ridge/price"
)

// The chart for terminals, in characters.
const (
	chartWidth  = 72
	chartHeight = 16
)

// window is the part of the plane that a chart shows: log10 of FLOPs/byte, and of FLOP/s.
type window struct{ left, right, bottom, top float64 }

// window shows all marks and where the roofs meet.
func (r *rooflineReport) window() window {
	peak := 0.0
	for _, rate := range r.profile.FLOPs {
		peak = max(peak, rate)
	}
	ridge := math.Log10(peak / r.profile.Memory().Rate)
	w := window{left: -1, right: ridge + 1, top: math.Log10(peak) + 0.3}
	w.bottom = w.top - 3.5
	for _, s := range r.Steps {
		for _, row := range s.Rows {
			if row.drawn() {
				x, y := row.at()
				w.left, w.right, w.bottom = min(w.left, x-0.4), max(w.right, x+0.4), min(w.bottom, y-0.6)
				if row.Measured > 0 {
					w.bottom = min(w.bottom, row.atMeasured()-0.6)
				}
			}
		}
	}
	return w
}

// leastShare is the least share of a step that a mark is made for: the others would hide those that matter.
const leastShare = 0.002

// drawn reports whether a chart shows the operation.
func (row *rooflineRow) drawn() bool {
	return row.FLOPs > 0 && row.Bytes > 0 && row.Share >= leastShare
}

// at is where an operation is: log10 of its intensity and of its FLOP/s.
func (row *rooflineRow) at() (x, y float64) {
	return math.Log10(row.Intensity), math.Log10(float64(row.FLOPs) / row.Seconds)
}

// atMeasured is log10 of the FLOP/s that an operation was measured at.
func (row *rooflineRow) atMeasured() float64 { return math.Log10(float64(row.FLOPs) / row.Measured) }

// chart draws a step under the roofs of its numbers and of the main memory.
func (r *rooflineReport) chart(s *rooflineStep) string {
	w := r.window()
	var cells [chartHeight][chartWidth]rune
	put := func(x, y float64, mark rune, over bool) {
		c := int((x-w.left)/(w.right-w.left)*(chartWidth-1) + 0.5)
		l := int((w.top-y)/(w.top-w.bottom)*(chartHeight-1) + 0.5)
		if c >= 0 && c < chartWidth && l >= 0 && l < chartHeight && (over || cells[l][c] == 0) {
			cells[l][c] = mark
		}
	}
	used := map[string]bool{}
	for i := len(s.Rows) - 1; i >= 0; i-- { // the longest last, on top
		row := &s.Rows[i]
		if row.drawn() && row.Letter != "" {
			x, y := row.at()
			if row.Measured > 0 {
				put(x, row.atMeasured(), unicode.ToUpper(rune(row.Letter[0])), true)
			}
			put(x, y, rune(row.Letter[0]), true)
			used[row.Number] = true
		}
	}
	memory := math.Log10(r.profile.Memory().Rate)
	for c := range chartWidth {
		x := w.left + (w.right-w.left)*float64(c)/(chartWidth-1)
		for n, rate := range r.profile.FLOPs {
			if !used[string(n)] {
				continue
			}
			if y := math.Log10(rate); x+memory >= y {
				put(x, y, '─', false)
			} else {
				put(x, x+memory, '╱', false)
			}
		}
	}
	var text strings.Builder
	for l := range cells {
		y := w.top - (w.top-w.bottom)*float64(l)/(chartHeight-1)
		fmt.Fprintf(&text, "%9s │", price.Rate(math.Pow(10, y)))
		for _, cell := range cells[l] {
			if cell == 0 {
				cell = ' '
			}
			text.WriteRune(cell)
		}
		text.WriteByte('\n')
	}
	fmt.Fprintf(&text, "   FLOP/s └%s\n%11s%-12.3g%*.4g\n", strings.Repeat("─", chartWidth), "", math.Pow(10, w.left), chartWidth-12, math.Pow(10, w.right))
	fmt.Fprintf(&text, "%11s%*s\n", "", chartWidth/2+8, "FLOPs for each byte")
	return text.String()
}
