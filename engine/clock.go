package engine

import "time"

// clock tells the time, also since the engine began.
type clock struct {
	now     func() time.Time
	started time.Time
}

// newClock is a clock that begins now; nil stands for the system's.
func newClock(now func() time.Time) clock {
	if now == nil {
		now = time.Now
	}
	return clock{now: now, started: now()}
}

// sinceStart is the time since the engine began.
func (c *clock) sinceStart() time.Duration { return c.now().Sub(c.started) }
