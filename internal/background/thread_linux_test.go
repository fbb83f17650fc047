package background

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestThreadsGiveWay: what runs in a lane has a thread of lower priority, and no other goroutine comes to run on one.
func TestThreadsGiveWay(t *testing.T) {
	own := threadNiceness(t)
	l := NewLane(1)
	for range 50 {
		if err := l.Do(t.Context(), small, func() {
			if n := threadNiceness(t); n != min(own+niceness, lowest) {
				t.Errorf("the thread's niceness is %d, the process's %d", n, own)
			}
		}); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			done := make(chan int)
			go func() { done <- threadNiceness(t) }()
			if n := <-done; n != own {
				t.Fatalf("a goroutine outside the lane runs with niceness %d, not %d", n, own)
			}
		}
	}
}

func threadNiceness(t *testing.T) int {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
	if err != nil {
		t.Error(err)
	}
	return 20 - n
}
