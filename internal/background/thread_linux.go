package background

import (
	"runtime"

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
