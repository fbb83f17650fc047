package main

import (
	"math"
	"runtime/debug"
	"time"
)

// While a model is loaded nearly all that is allocated stays, and collecting it would take the time of a core and
// write-protect what the others fill. So the collector rests until the first answer is under way, unless memory grows beyond
// loadingBytes.
const (
	loadingBytes = 256 << 20
	restAfter    = time.Second // after loading
)

// restCollector keeps the garbage collector from running; loaded says that the model is there.
func restCollector() (loaded func()) {
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(math.MaxInt64)
	debug.SetMemoryLimit(min(limit, loadingBytes))
	return func() {
		time.AfterFunc(restAfter, func() {
			debug.SetMemoryLimit(limit)
			debug.SetGCPercent(percent)
		})
	}
}
