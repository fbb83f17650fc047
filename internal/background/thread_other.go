//go:build !linux

package background

import "time"

// start runs f in a goroutine. Threads of this system have no priorities of their own that any process may lower.
func start(f func()) { go f() }

// threadTime is the time that has gone by.
func threadTime() time.Duration { return time.Since(started) }

func sleep(d time.Duration) { time.Sleep(d) }
