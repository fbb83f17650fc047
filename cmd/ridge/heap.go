package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
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
// small, so that it would be collected many times a second while large bodies are read, and a collection takes 10 ms in which the workers lack a processor or two: it may grow
// by garbageBytes, but by no more than mostPercent of what is in use (10 MB of a server with one model: to 170 MB), and by as much as that in any case.
const (
	garbageBytes = 256 << 20
	mostPercent  = 1600
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
				followHeap()
				return
			}
			debug.SetGCPercent(percent)
		})
	}
}

// followHeap sets GOGC by what is in use, now and after every collection until stop is called: grammars, answers and files that are kept make a small heap a large one.
func followHeap() (stop func()) {
	var stopped atomic.Bool
	type cycle struct{ next func(*cycle) } // nothing refers to it, so that every collection finds it
	set := func(c *cycle) {
		if stopped.Load() {
			return
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(collectPercent(live[0].Value.Uint64()))
		runtime.SetFinalizer(c, c.next)
	}
	set(&cycle{set})
	return func() { stopped.Store(true) }
}
