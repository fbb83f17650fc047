package main

import (
	"math"
	"os"
	"runtime"
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

// What requests leave behind is collected beside the steps of others, by threads of their priority. Weights and caches are no part of Go's heap, which is
// small, so that it would be collected many times a second while a large body is read: it may grow by garbageBytes, but to no more than
// mostPercent of what is in use.
const (
	garbageBytes = 256 << 20
	mostPercent  = 400
)

// collectPercent is GOGC for a heap with so many bytes in use, if GOGC is not given.
func collectPercent(inUse uint64) int {
	return int(max(100, min(mostPercent, garbageBytes*100/max(inUse, 1))))
}

// restCollector keeps the garbage collector from running; loaded says that the model is there.
func restCollector() (loaded func()) {
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(math.MaxInt64)
	debug.SetMemoryLimit(min(limit, loadingBytes))
	return func() {
		time.AfterFunc(restAfter, func() {
			debug.SetMemoryLimit(limit)
			if _, given := os.LookupEnv("GOGC"); !given {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				percent = collectPercent(m.HeapInuse)
			}
			debug.SetGCPercent(percent)
		})
	}
}
