package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/ridge-llm/ridge/internal/hub"
)

const (
	barWidth  = 24               // characters
	lineTime  = 10 * time.Second // between two lines, where there is no terminal
	rateSpan  = 8 * time.Second  // over which the rate is averaged
	nameWidth = 30               // characters of a file's name
)

// downloadBar shows a download: on a terminal as a bar that is drawn anew, elsewhere as a line now and then.
type downloadBar struct {
	out      io.Writer
	terminal bool
	printed  time.Time // the last line
	drawn    bool
	rate     byteRate
}

func newDownloadBar(f *os.File) *downloadBar {
	return &downloadBar{out: f, terminal: term.IsTerminal(int(f.Fd())), printed: time.Now()}
}

// show is a hub.Progress.
func (p *downloadBar) show(s hub.Status) {
	now := time.Now()
	p.rate.add(now, s.Done)
	if !p.terminal {
		if now.Sub(p.printed) >= lineTime {
			p.printed = now
			fmt.Fprintf(p.out, "ridge: %s\n", p.line(s))
		}
		return
	}
	full := 0
	if s.Total > 0 {
		full = int(barWidth * s.Done / s.Total)
	}
	p.drawn = true
	fmt.Fprintf(p.out, "\r\x1b[K%s%s %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), p.line(s))
}

// line is where the download stands, in words.
func (p *downloadBar) line(s hub.Status) string {
	name := path.Base(s.File)
	if r := []rune(name); len(r) > nameWidth {
		name = "…" + string(r[len(r)-nameWidth+1:])
	}
	text := fmt.Sprintf("%s of %s", hub.Bytes(s.Done), hub.Bytes(s.Total))
	if perSecond := p.rate.value(); perSecond > 0 && s.Done < s.Total {
		left := time.Duration(float64(s.Total-s.Done) / perSecond * float64(time.Second))
		text += fmt.Sprintf(", %s/s, %v left", hub.Bytes(int64(perSecond)), left.Round(time.Second))
	}
	return text + "  " + name
}

// end leaves the bar behind.
func (p *downloadBar) end() {
	if p.drawn {
		fmt.Fprintln(p.out)
	}
}

// byteRate is how fast a count has grown of late.
type byteRate struct {
	times  []time.Time
	counts []int64
}

func (r *byteRate) add(now time.Time, count int64) {
	r.times, r.counts = append(r.times, now), append(r.counts, count)
	for now.Sub(r.times[0]) > rateSpan {
		r.times, r.counts = r.times[1:], r.counts[1:]
	}
}

// value is the growth per second; 0 while it is not known.
func (r *byteRate) value() float64 {
	last := len(r.times) - 1
	if last < 1 {
		return 0
	}
	return float64(r.counts[last]-r.counts[0]) / r.times[last].Sub(r.times[0]).Seconds()
}
