package background

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	niceness = 10 // above the process's: a tenth of the time that its other threads get where both want the same processor
	lowest   = 19
)

// start runs f in a goroutine with a thread of its own, whose priority is low; the thread ends with f. Go makes no thread from one that is locked,
// so none inherits its priority.
func start(f func()) {
	go func() {
		runtime.LockOSThread() // and never unlocked: nothing else is to run on the thread
		thread := unix.Gettid()
		if raised, err := unix.Getpriority(unix.PRIO_PROCESS, thread); err == nil { // 20 less the niceness
			_ = unix.Setpriority(unix.PRIO_PROCESS, thread, min(20-raised+niceness, lowest)) // else it works as other threads do
		}
		f()
	}()
}

// threadTime is what the calling thread has taken of processors.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// sleep has the thread itself sleep: time.Sleep would have it woken by two other threads, of the priority of those that it is to give way to. A signal ends it early.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}
