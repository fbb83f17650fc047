package main

import (
	"os"
	"runtime"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/backend/cpu/threads"
)

// TestAddProcessors: a server on the CPU has Go's processors to spare beside its workers, unless it may not use more or was told how many.
func TestAddProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for _, test := range []struct {
		name, told string
		options    ridge.Options
		workers    int
		more       int
	}{
		{"the default", "", ridge.Options{}, threads.Detect().Threads(before), spareProcessors},
		{"so many threads", "", ridge.Options{Threads: 1}, 1, spareProcessors},
		{"on a GPU", "", ridge.Options{Backend: "cuda:1"}, 0, 0},
		{"told", "3", ridge.Options{}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(before)
			if t.Setenv("GOMAXPROCS", test.told); test.told == "" {
				os.Unsetenv("GOMAXPROCS")
			}
			if threads.Detect().Quota() > 0 {
				test.workers, test.more = test.options.Threads, 0
			}
			addProcessors(&test.options)
			if n := runtime.GOMAXPROCS(0); test.options.Threads != test.workers || n != before+test.more {
				t.Errorf("%d workers and %d of Go's processors; there were %d", test.options.Threads, n, before)
			}
		})
	}
}
