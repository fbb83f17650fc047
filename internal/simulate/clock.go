package simulate

import (
	"sync/atomic"
	"time"
)

// clock is virtual time since the simulation began. Only steps and waiting for arrivals take any.
type clock struct{ ns atomic.Int64 }

// zero is when every simulation begins.
var zero = time.Unix(0, 0)

// Now is the time as the engine reads it.
func (c *clock) Now() time.Time { return zero.Add(c.since()) }

// since is the time since the beginning.
func (c *clock) since() time.Duration { return time.Duration(c.ns.Load()) }

// pass lets time pass.
func (c *clock) pass(d time.Duration) { c.ns.Add(int64(d)) }

// reach lets time pass until t, if it is not later already.
func (c *clock) reach(t time.Duration) { c.ns.Store(max(c.ns.Load(), int64(t))) }
