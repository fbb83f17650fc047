package engine

import (
	"math"

	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/predict"
	"github.com/ridge-llm/ridge/engine/sched"
)

// prices remembers for some steps what steps with drafts are priced at. To price one takes some microseconds, and a plan compares several: on a small model that is a
// tenth of a step, in which the device has nothing to do.
type prices struct {
	times *predict.Times
	of    map[sched.Shape]priceLine // by shapes of rows without those that they read
	steps int                       // since all were forgotten
}

// priceLine is the price of shapes that are alike but for what they read of the cache: between two of them, of which the second reads more by a factor of 1+stretch.
type priceLine struct{ rows, pairs, seconds, more float64 }

// stretch is for what growth of contexts a line stands, and priced for how many steps: what is observed of steps corrects prices.
const stretch, priced = 0.125, 16

// step begins a step.
func (p *prices) step() {
	if p.steps++; p.steps >= priced || p.of == nil {
		p.steps, p.of = 0, map[sched.Shape]priceLine{}
	}
}

// estimate is predict.Times.Estimate, within what two points of a curve tell.
func (p *prices) estimate(s sched.Shape) float64 {
	key := s
	key.Rows, key.Pairs = 0, 0
	rows, pairs := float64(s.Rows), float64(s.Pairs)
	line, ok := p.of[key]
	if ok {
		along := (pairs/line.pairs - 1) / stretch
		if along >= 0 && along <= 1 && math.Abs(rows-line.rows*(1+stretch*along)) <= 0.02*line.rows {
			return line.seconds + along*line.more
		}
	}
	line = priceLine{rows: rows, pairs: pairs, seconds: p.times.Estimate(s)}
	if s.Rows == 0 || s.Pairs == 0 || line.seconds <= 0 {
		return line.seconds
	}
	s.Rows, s.Pairs = int(rows*(1+stretch)), int(pairs*(1+stretch))
	line.more = p.times.Estimate(s) - line.seconds
	p.of[key] = line
	return line.seconds
}

// priceOf says what the scheduled step takes with drafts, the drafting included; 0: that is not known.
func (s *speculation) priceOf(x draft.Extra) float64 {
	seconds := s.prices.estimate(grown(s.queue.schedule.Shape, x))
	if seconds > 0 {
		seconds += s.seconds(x)
	}
	return seconds
}

// seconds is what the drafters take for those drafts.
func (s *speculation) seconds(x draft.Extra) float64 {
	seconds := x.Behind
	for _, d := range s.drafters {
		if d.offers || d.Drafter == nil {
			continue
		}
		if a := x.Asked[d.paid]; a.Seqs > 0 {
			seconds += d.Seconds(a.Seqs, a.Longest)
		}
	}
	return seconds
}
