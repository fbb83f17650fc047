package threads

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/backend/cpu/vec"
)

// How long a worker spins at a barrier before it parks. Waking a parked worker takes 75 µs and more on a virtual machine, so a
// worker that parks within a step makes the others late at the next barrier, where they park in turn: half of a decode step went
// to that. Between steps the engine samples, which takes less than a millisecond.
const (
	spinBeforeYield  = 20 * time.Microsecond // before the core is yielded to other processes between loads
	spinWithinStep   = 20 * time.Millisecond
	spinBetweenSteps = 2 * time.Millisecond

	// Where other processes want the core, spinning wastes what the workers themselves lack, and they park at once.
	preemptedAfter = 200 * time.Microsecond // longer between two loads: another process had the core
	contendedFor   = 50 * time.Millisecond  // how long the core then counts as contended
)

// barrier is a reusable spin barrier. Waiting workers first spin, because the others are usually microseconds away, and call idle
// between loads; then they yield the core to other processes between loads, since one of those may hold up the last
// worker; then they park.
type barrier struct {
	parties    int32
	spinLimit  time.Duration
	idle       func(id int) bool // see New
	arrived    atomic.Int32
	_          [64]byte      // waiting workers load generation; arrivals should not invalidate its cache line
	generation atomic.Uint32 // how often the barrier was passed
	aborted    atomic.Bool   // one of the parties will not come
	parked     atomic.Int32
	contended  atomic.Int64 // ns since the epoch until which other processes are assumed to want the core
	mu         sync.Mutex
	wake       *sync.Cond
}

// errAborted is the panic of workers that wait at an aborted barrier.
var errAborted = errors.New("cpu: another worker panicked")

// wait returns when all parties have called it.
func (b *barrier) wait(id int) {
	generation := b.generation.Load()
	if b.arrived.Add(1) == b.parties {
		b.arrived.Store(0)
		b.generation.Add(1)
		if b.parked.Load() > 0 {
			b.mu.Lock()
			b.wake.Broadcast()
			b.mu.Unlock()
		}
		return
	}
	if !b.spin(id, generation) {
		b.park(generation)
	}
	if b.aborted.Load() {
		panic(errAborted)
	}
}

// spin loads until the generation has passed or the spin limit is reached, and reports which.
func (b *barrier) spin(id int, generation uint32) bool {
	start := time.Now()
	for last := start; ; {
		for range 16 { // loads for each read of the clock
			if b.generation.Load() != generation || b.aborted.Load() {
				return true
			}
			if !b.idle(id) {
				vec.Pause(1)
			}
		}
		now := time.Now()
		if now.Sub(last) > preemptedAfter {
			b.contended.Store(now.Add(contendedFor).UnixNano())
		}
		if waited := now.Sub(start); waited > b.spinLimit || waited > spinBeforeYield && now.UnixNano() < b.contended.Load() {
			return false
		} else if waited > spinBeforeYield {
			yield()
		}
		last = now
	}
}

// park sleeps until the generation has passed.
func (b *barrier) park(generation uint32) {
	b.mu.Lock()
	if b.wake == nil {
		b.wake = sync.NewCond(&b.mu)
	}
	b.parked.Add(1)
	for b.generation.Load() == generation && !b.aborted.Load() {
		b.wake.Wait()
	}
	b.parked.Add(-1)
	b.mu.Unlock()
}

// abort releases all that wait, now or later.
func (b *barrier) abort() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.aborted.Store(true)
	if b.wake != nil {
		b.wake.Broadcast()
	}
}

// reset makes an aborted barrier usable again. No worker may be waiting at it.
func (b *barrier) reset() {
	b.arrived.Store(0)
	b.aborted.Store(false)
}
