package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/backend/cpu/vec"
)

// word is a counter that others wait for, and how many of them sleep.
type word struct{ value, sleepers atomic.Uint32 }

func wordAt(mem []byte, at int) *word {
	_ = mem[at+lines-1]
	return (*word)(unsafe.Pointer(&mem[at]))
}

const (
	futexWait = 0 // of linux/futex.h
	futexWake = 1

	spinFor  = 50 * time.Microsecond // before sleeping: what it takes to sleep and be woken, several times
	sleepFor = 20 * time.Millisecond // before looking whether a rank has aborted
)

// reached reports whether a counter that wraps around has come to n.
func (w *word) reached(n uint32) bool { return int32(w.value.Load()-n) >= 0 }

// set moves the counter on to n.
func (w *word) set(n uint32) {
	w.value.Store(n)
	if w.sleepers.Load() > 0 {
		w.wake()
	}
}

func (w *word) wake() { futex(&w.value, futexWake, maxRanks, nil) }

// await waits until the counter has come to n, or stopped reports that it will not.
func (w *word) await(n uint32, stopped func() bool) bool {
	for range 64 { // what a peer that is at work takes to get there needs no clock
		if w.reached(n) {
			return true
		}
		vec.Pause(1)
	}
	for start := time.Now(); time.Since(start) < spinFor; {
		for range 32 {
			if w.reached(n) {
				return true
			}
			vec.Pause(1)
		}
	}
	for !w.reached(n) {
		if stopped() {
			return false
		}
		w.sleep(n)
	}
	return true
}

// sleep waits until the counter moves, or a while.
func (w *word) sleep(n uint32) {
	w.sleepers.Add(1)
	defer w.sleepers.Add(^uint32(0))
	// Whoever moves the counter from here on sees the sleeper; who moved it before is seen here, or by the kernel, which compares.
	if now := w.value.Load(); int32(now-n) < 0 {
		timeout := unix.NsecToTimespec(int64(sleepFor))
		futex(&w.value, futexWait, now, &timeout)
	}
}

// futex calls the kernel. Its errors are a counter that has moved, a time that is over and a signal: the caller looks again in any case.
func futex(at *atomic.Uint32, op int, value uint32, timeout *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(at)), uintptr(op), uintptr(value), uintptr(unsafe.Pointer(timeout)), 0, 0)
}
