package main

import (
	"os"
	"runtime"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/backend/cpu/threads"
	"github.com/ridge-llm/ridge/internal/device"
)

// spareProcessors is how many goroutines may compute beside the workers of the CPU. Workers that spin keep as many of Go's processors as there are; a goroutine
// that has something to do, if only to pass a token on, would get one after up to 10 ms, and keep it from its worker as long. With
// processors to spare it is the system that divides the cores, in shorter turns and by priority (internal/background).
const spareProcessors = 2

// addProcessors adds them for a server whose model runs on the CPU. It fixes the number of its workers, which is by default that of Go's processors. A process with a CPU quota
// gets none: what its threads together use beyond it stops all of them for the rest of the period. Nor does one that was told its GOMAXPROCS.
func addProcessors(o *ridge.Options) {
	t := threads.Detect()
	if device.OnGPU(o.Backend) || t.Quota() > 0 || os.Getenv("GOMAXPROCS") != "" {
		return
	}
	n := runtime.GOMAXPROCS(0)
	if o.Threads == 0 {
		o.Threads = t.Threads(n)
	}
	runtime.GOMAXPROCS(n + spareProcessors)
}
