package background

import (
	"sync/atomic"
	"time"
)

// A low priority says how much of a processor a thread gets, not how long its turns are: where workers want the same one, the system gives them a tenth of the time in
// turns that end at a tick of the clock, of 4 ms on most machines, and a step that takes 1.5 ms takes 5 when one comes in. So while steps take all processors, work in the background
// ends its turns itself, and rests.
const (
	turnTime = 250 * time.Microsecond // of a processor
	resting  = 9                      // times as long as what it took
	longest  = 50 * time.Millisecond  // rest; a piece of work that cannot be interrupted may take long
	recently = 5 * time.Millisecond   // between two steps
)

// computing is how many steps are under way that take all of the process's processors, and when one last ended.
var computing struct {
	steps atomic.Int32
	ended atomic.Int64 // ns after start
}

var started = time.Now()

// StepBegins says that a step begins which takes all of the processors.
func StepBegins() { computing.steps.Add(1) }

// StepEnds says that it has ended.
func StepEnds() {
	computing.ended.Store(int64(time.Since(started)))
	computing.steps.Add(-1)
}

// Stepping reports whether steps take all processors, also between two of them.
func Stepping() bool {
	if computing.steps.Load() > 0 {
		return true
	}
	ended := computing.ended.Load()
	return ended > 0 && time.Since(started)-time.Duration(ended) < recently
}

// restAfter is how long work rests that has taken so much of a processor.
func restAfter(took time.Duration) time.Duration {
	if took <= 0 || !Stepping() {
		return 0
	}
	return min(resting*took, longest)
}

// Turns are those of one piece of work in a thread of low priority (Run). Its methods are for that thread.
type Turns struct{ began time.Duration } // what the thread had taken then

// Pause ends the turn, if it has lasted long enough, and rests as long as it is to. It costs less than a microsecond otherwise, and is to be called every 100 µs or so.
func (t *Turns) Pause() {
	now := threadTime()
	if now-t.began < turnTime {
		return
	}
	if rest := restAfter(now - t.began); rest > 0 {
		sleep(rest)
	}
	t.began = now
}
