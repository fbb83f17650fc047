package engine

import (
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
)

// A device that draws tokens itself (backend.Sampler) need not wait for the host between steps. While it is at work on step n
// the engine schedules step n+1 as if everybody went on, and gives it to the device: a token that step n is still to choose is named
// by its place among that step's draws. Only then are the tokens of step n collected. So scheduling, handing out and turning tokens
// into text cost no time as long as they take less than a step. Who ends by a token of step n was in step n+1 for nothing: one
// row is computed that nobody looks at, and since the device does one step after the other, pages given back early are
// safe. Steps that need what the host makes of the tokens are not given ahead: see foreseen.

// flight is a step that the device is given, up to the collection of what it brings.
type flight struct {
	chosen   []*request
	batch    backend.Batch
	launched time.Time // when the device was given the step
	draws    []draw    // on a device that draws made when it was given the step, else when its rows were read

	// On a device that draws:
	lots  []sampling.Sample
	drawn []sampling.Result // one for each of lots
	took  time.Duration     // that the device was at work on the step
}

// foreseen reports whether the step that is scheduled can be given to the device before the one under way is collected. It
// cannot when a token of that one decides what may come next (grammars, scripts), when rows must be read before the next
// step overwrites them, when siblings are about to join, or when somebody is to give back pages.
func (e *Engine) foreseen() bool {
	if _, ok := e.recorder.(unrecorded); !ok || !e.sampler || len(e.suspects) > 0 || len(e.schedule.Preempt) > 0 {
		return false
	}
	for _, r := range e.chosen {
		if r.Hidden != nil || r.row >= 0 && !r.ended && (r.Grammar != nil || r.Forced != nil || len(r.siblings) > 0) {
			return false
		}
	}
	return true
}

// other is the flight that is not e.flight.
func (e *Engine) other() *flight {
	if e.flight == &e.flights[0] {
		return &e.flights[1]
	}
	return &e.flights[0]
}

// takeOffNext gives the device the step after the one under way.
func (e *Engine) takeOffNext() error {
	under := e.flight
	e.flight = e.other()
	err := e.takeOff()
	if err == nil { // else e.chosen are those with whom it failed
		e.flight = under
	}
	return err
}

// giveDraws has the device draw the tokens of the step that it was just given: those of the siblings of who reaches the end of
// the prompt too, from the same row.
func (e *Engine) giveDraws() error {
	e.lots, e.draws = e.lots[:0], e.draws[:0]
	for _, r := range e.chosen {
		fed := -1
		if r.pending > 0 {
			fed = r.lot
		}
		if r.lot = -1; r.row < 0 || r.Hidden != nil {
			continue
		}
		if r.Forced == nil {
			e.addLot(r, r.row, fed)
		}
		e.draws = append(e.draws, draw{request: r, lot: r.lot})
	}
	for _, r := range e.chosen {
		for _, s := range r.siblings {
			if s.lot = -1; r.row >= 0 && len(e.lots) < e.prog.Limits.Logits {
				e.addLot(s, r.row, -1)
			}
		}
	}
	if err := e.prog.Sample(e.lots); err != nil {
		return err
	}
	e.aloft++
	e.fed = len(e.lots)
	for _, d := range e.draws {
		if d.lot >= 0 {
			d.request.pending++
		}
	}
	return nil
}

// addLot adds the draw of a request's next token. A grammar says what it may be while the device computes the logits.
func (e *Engine) addLot(r *request, row, fed int) {
	if r.Grammar != nil {
		r.findMask(e.prog.Vocab())
	}
	r.lot = len(e.lots)
	if r.lot < cap(e.lots) {
		e.lots = e.lots[:r.lot+1] // with the lists of an earlier draw, to be used again
	} else {
		e.lots = append(e.lots, sampling.Sample{})
	}
	r.sampling.Describe(&e.lots[r.lot], r.mask, fed)
	e.lots[r.lot].Row = row
}

// readDrawn waits for the tokens of the step.
func (e *Engine) readDrawn() (err error) {
	for len(e.drawn) < len(e.lots) {
		e.drawn = append(e.drawn, sampling.Result{})
	}
	if e.took, err = e.prog.SampleResults(e.drawn[:len(e.lots)]); err != nil {
		return err
	}
	e.aloft--
	waiting := e.draws[:0]
	for _, d := range e.draws {
		if d.request.ended {
			continue
		}
		if d.lot >= 0 {
			d.request.pending--
			d.drawn = &e.drawn[d.lot]
		}
		waiting = append(waiting, d)
	}
	e.draws = waiting
	return nil
}

// readRows waits for the logits of the step, which the host draws from.
func (e *Engine) readRows() error {
	e.draws = e.draws[:0]
	if e.onlyHidden() {
		return nil
	}
	vocab := e.prog.Vocab()
	rows, err := e.prog.Rows(e.logits, len(e.batch.LogitsIndices))
	if err != nil {
		return err
	}
	for _, r := range e.chosen {
		if r.row >= 0 && !r.ended && r.Hidden == nil {
			e.draws = append(e.draws, draw{request: r, logits: rows[r.row*vocab:][:vocab]})
		}
	}
	return nil
}

// idle is how much of a step's time the device had nothing to do.
func (e *Engine) idle(began time.Time, took time.Duration) time.Duration {
	if e.sampler {
		return max(took-e.took, 0)
	}
	return e.since(e.ready) + e.launched.Sub(began)
}

// land turns to the step after the one that has been collected.
func (e *Engine) land() {
	if e.aloft > 0 {
		e.flight = e.other()
	}
}

// ground waits for the steps that the device is at, and forgets what they bring: their requests start over, or have ended.
func (e *Engine) ground() {
	for ; e.aloft > 0; e.aloft-- {
		// Whatever went wrong has been said where it did.
		_, _ = e.prog.SampleResults(nil)
	}
	for _, r := range e.byID {
		r.pending = 0
	}
}

// known is how many of the request's tokens there are, with one that the device has chosen or is about to.
func (r *request) known() int { return len(r.tokens) + r.pending }

// tokenAt is the token at a position, as a batch names it.
func (r *request) tokenAt(p int) int32 {
	if p == len(r.tokens) {
		return int32(-1 - r.lot)
	}
	return r.tokens[p]
}

// last reports whether the next token is the last that the request may have.
func (r *request) last() bool { return len(r.tokens)+1 == r.sched.Limit }
