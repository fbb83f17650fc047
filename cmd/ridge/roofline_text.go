package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/ridge-llm/ridge/price"
)

// The chart for terminals, in characters.
const (
	chartHeight = 16
	chartLeft   = 11 // what stands left of the plane
	plainWidth  = 80 // of what is no terminal
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

// roof is the peak rate of some formats.
type roof struct {
	rate  float64
	names string
}

// roofsOf are a device's peak rates of arithmetic, the lowest first; formats of one rate share a roof.
func roofsOf(p *price.Profile) []roof {
	var roofs []roof
	for _, n := range price.Numbers {
		rate := p.FLOPs[n]
		if at := slices.IndexFunc(roofs, func(r roof) bool { return r.rate == rate }); at >= 0 {
			roofs[at].names += ", " + string(n)
		} else if rate > 0 {
			roofs = append(roofs, roof{rate, string(n)})
		}
	}
	slices.SortFunc(roofs, func(a, b roof) int { return cmp.Compare(a.rate, b.rate) })
	return roofs
}

// fastest is the bandwidth of the fastest level of memory, bytes/s.
func fastest(p *price.Profile) float64 {
	rate := 0.0
	for _, l := range p.Levels {
		rate = max(rate, l.Rate)
	}
	return rate
}

// rated is a rate with its unit: "989 TFLOP/s".
func rated(x float64, unit string) string {
	s := price.Rate(x)
	return strings.TrimRight(s, "kMGTP") + " " + strings.TrimLeft(s, "0123456789.e+-") + unit
}

// plane is the cells of a chart for terminals.
type plane struct {
	window
	cells [chartHeight][]rune
	width int
}

// cell is where a place of the plane is; false outside.
func (p *plane) cell(x, y float64) (line, column int, ok bool) {
	column = int((x-p.left)/(p.right-p.left)*float64(p.width-1) + 0.5)
	line = int((p.top-y)/(p.top-p.bottom)*(chartHeight-1) + 0.5)
	return line, column, column >= 0 && column < p.width && line >= 0 && line < chartHeight
}

// put writes a mark, over another only if it is to.
func (p *plane) put(x, y float64, mark rune, over bool) {
	if l, c, ok := p.cell(x, y); ok && (over || p.cells[l][c] == 0) {
		p.cells[l][c] = mark
	}
}

// chart draws a step under the roofs of the device's formats and levels of memory, as wide as so many characters.
func (r *rooflineReport) chart(s *rooflineStep, width int) string {
	p := plane{window: r.window(), width: max(width-chartLeft, 40)}
	for l := range p.cells {
		p.cells[l] = make([]rune, p.width)
	}
	for i := len(s.Rows) - 1; i >= 0; i-- { // the longest last, on top
		row := &s.Rows[i]
		if row.drawn() && row.Letter != "" {
			x, y := row.at()
			if row.Measured > 0 {
				p.put(x, row.atMeasured(), unicode.ToUpper(rune(row.Letter[0])), true)
			}
			p.put(x, y, rune(row.Letter[0]), true)
		}
	}
	legend := r.roofs(&p)
	var text strings.Builder
	for l := range p.cells {
		y := p.top - (p.top-p.bottom)*float64(l)/(chartHeight-1)
		line := strings.ReplaceAll(string(p.cells[l]), "\x00", " ")
		fmt.Fprintf(&text, "%9s │%s\n", price.Rate(math.Pow(10, y)), strings.TrimRight(line, " "))
	}
	fmt.Fprintf(&text, "   FLOP/s └%s\n%11s%-12.3g%*.4g\n", strings.Repeat("─", p.width), "", math.Pow(10, p.left), p.width-12, math.Pow(10, p.right))
	fmt.Fprintf(&text, "%11s%*s\n", "", p.width/2+8, "FLOPs for each byte")
	fmt.Fprintf(&text, "%11s%s\n", "", legend)
	return text.String()
}

// roofs draws the device's limits where nothing else is, and returns which lines are which.
func (r *rooflineReport) roofs(p *plane) (legend string) {
	all, memory := roofsOf(r.profile), r.profile.Memory()
	named := [chartHeight]int{} // cells at the right end of each line that names have taken
	for _, f := range all {
		if l, _, ok := p.cell(p.right, math.Log10(f.rate)); ok {
			name := []rune(" " + f.names + " ──")
			named[l] += len(name)
			for i, mark := range name {
				if c := p.width - named[l] + i; c > 0 && p.cells[l][c] == 0 {
					p.cells[l][c] = mark
				}
			}
		}
	}
	for _, f := range all {
		y := math.Log10(f.rate)
		p.put(y-math.Log10(memory.Rate), y, '◇', false)
	}
	parts := []string{"╱ " + memory.Name + " " + rated(memory.Rate, "B/s")}
	for i := len(r.profile.Levels) - 1; i >= 0; i-- {
		level, mark := r.profile.Levels[i], '╱'
		if level.Rate == 0 {
			continue
		}
		if i < len(r.profile.Levels)-1 {
			mark = '·'
			parts = append(parts, "· "+level.Name+" "+rated(level.Rate, "B/s"))
		}
		for c := range p.width {
			x := p.left + (p.right-p.left)*float64(c)/float64(p.width-1)
			if y := x + math.Log10(level.Rate); y < math.Log10(all[len(all)-1].rate) {
				p.put(x, y, mark, false)
			}
		}
	}
	for c := range p.width {
		x := p.left + (p.right-p.left)*float64(c)/float64(p.width-1)
		for _, f := range all {
			if y := math.Log10(f.rate); x+math.Log10(fastest(r.profile)) >= y {
				p.put(x, y, '─', false)
			}
		}
	}
	return strings.Join(append(parts, "◇ ridge points"), "   ")
}
