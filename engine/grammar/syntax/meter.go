package syntax

import "errors"

// Meter counts the work of compiling a grammar, in units of about 100 ns, and ends it when it is too much or not wanted any more. A nil one
// counts nothing.
type Meter struct {
	left  int // units
	pause func() error
	since int // units since the last pause
	err   error
}

// MaxMeterWork is what compiling a grammar may take, in a Meter's units: about two seconds.
const MaxMeterWork = 20_000_000

const pauseEvery = 1000 // units: 100 µs

// NewMeter makes a meter of so many units. pause is called every 100 µs or so, to let others compute; its error ends compiling.
func NewMeter(units int, pause func() error) *Meter { return &Meter{left: units, pause: pause} }

// Spend counts work that is about to be done. Once it is false it stays so: what is being made is to be given up, and Err says why.
func (m *Meter) Spend(units int) bool {
	if m == nil {
		return true
	}
	if m.err != nil {
		return false
	}
	if m.left -= units; m.left < 0 {
		m.err = errors.New("grammar: compiling it takes too long; shorten its repetitions, bounds, patterns or enums")
		return false
	}
	if m.since += units; m.since >= pauseEvery && m.pause != nil {
		m.since = 0
		m.err = m.pause()
	}
	return m.err == nil
}

// Err is why compiling was ended; nil: it was not.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}
