package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestCollectPercent: a small heap may grow to seventeen times what is in use, a large one is collected as Go does by default.
func TestCollectPercent(t *testing.T) {
	for inUse, want := range map[uint64]int{0: 1600, 10 << 20: 1600, 64 << 20: 400, 128 << 20: 200, 1 << 30: 100} {
		if got := collectPercent(inUse); got != want {
			t.Errorf("of %d bytes in use: %d %%, want %d %%", inUse, got, want)
		}
	}
}

// TestFollowHeap: a heap that has become large is collected as one, and as a small one when it is small again.
func TestFollowHeap(t *testing.T) {
	before := debug.SetGCPercent(100)
	stop := followHeap()
	defer debug.SetGCPercent(before)
	defer stop()
	is := func(what string, ok func(percent uint64) bool) {
		t.Helper()
		now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			runtime.GC()
			if metrics.Read(now); ok(now[0].Value.Uint64()) {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("%s GOGC is %d", what, now[0].Value.Uint64())
			}
		}
	}
	kept := make([]byte, 512<<20) // never touched: it takes no memory
	is("with 512 MiB in use", func(percent uint64) bool { return percent == 100 })
	runtime.KeepAlive(kept)
	kept = nil
	is("without them", func(percent uint64) bool { return percent > 100 })
}
