package cpu

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/backend/cpu/vec"
)

// How long a worker waits for the others before it parks. Waking a parked worker takes 75 µs and more on a virtual
// machine, so a worker that parks within a step makes the others late at the next barrier, where they park in turn: half
// of a decode step went to that. Between steps a caller samples, which takes less than a millisecond.
const (
	alone        = 20 * time.Microsecond // before other processes are let onto the core
	withinStep   = 20 * time.Millisecond
	betweenSteps = 2 * time.Millisecond

	// Where other processes do want the core, waiting wastes what the workers themselves lack, and they park at once.
	lost    = 200 * time.Microsecond // away from the core: another process had it
	crowded = 50 * time.Millisecond  // this long after
)

// gate is a barrier that can be used again and again. Those who wait look at it without rest at first, because the others
// are usually microseconds away, and read on in their next weights between looks; then they offer their core to other processes between looks, one of which may hold up
// the worker that is waited for; then they park.
type gate struct {
	parties  int32
	patience time.Duration
	arrived  atomic.Int32
	_        [64]byte      // those who wait look at passed; they should not be disturbed by those who arrive
	passed   atomic.Uint32 // generation
	broken   atomic.Bool   // one of the parties will not come
	parked   atomic.Int32
	crowded  atomic.Int64 // time until which other processes are assumed to want the core
	mu       sync.Mutex
	wake     *sync.Cond
}

// errBroken is what those panic with who wait at a gate for one who will not come.
var errBroken = errors.New("cpu: another worker panicked")

// wait returns when all parties have called it.
func (g *gate) wait(w *worker) {
	generation := g.passed.Load()
	if g.arrived.Add(1) == g.parties {
		g.arrived.Store(0)
		g.passed.Add(1)
		if g.parked.Load() > 0 {
			g.mu.Lock()
			g.wake.Broadcast()
			g.mu.Unlock()
		}
		return
	}
	if !g.watch(w, generation) {
		g.park(generation)
	}
	if g.broken.Load() {
		panic(errBroken)
	}
}

// watch looks until the generation has passed or patience runs out, and reports which.
func (g *gate) watch(w *worker, generation uint32) bool {
	start := time.Now()
	for last := start; ; {
		for range 16 { // looks for each at the clock
			if g.passed.Load() != generation || g.broken.Load() {
				return true
			}
			if !w.scratch.PrefetchNext(w.tier) {
				vec.Pause(1)
			}
		}
		now := time.Now()
		if now.Sub(last) > lost {
			g.crowded.Store(now.Add(crowded).UnixNano())
		}
		if waited := now.Sub(start); waited > g.patience || waited > alone && now.UnixNano() < g.crowded.Load() {
			return false
		} else if waited > alone {
			yield()
		}
		last = now
	}
}

// park sleeps until the generation has passed.
func (g *gate) park(generation uint32) {
	g.mu.Lock()
	if g.wake == nil {
		g.wake = sync.NewCond(&g.mu)
	}
	g.parked.Add(1)
	for g.passed.Load() == generation && !g.broken.Load() {
		g.wake.Wait()
	}
	g.parked.Add(-1)
	g.mu.Unlock()
}

// shatter lets those go who wait, now or later.
func (g *gate) shatter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken.Store(true)
	if g.wake != nil {
		g.wake.Broadcast()
	}
}

// repair makes a broken gate whole. Nobody may be at it.
func (g *gate) repair() {
	g.arrived.Store(0)
	g.broken.Store(false)
}
