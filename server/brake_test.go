package server_test

import (
	"sync"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sched"
)

// brake is a Recorder that holds the engine still after some steps, until it is let go: a request that runs then is under way as
// long as a test needs it, however fast or loaded the machine is.
type brake struct {
	turn  *sync.Cond
	after int // steps that go by first; negative: all
}

func newBrake(after int) *brake { return &brake{turn: sync.NewCond(&sync.Mutex{}), after: after} }

// release lets the engine go.
func (b *brake) release() { b.hold(-1) }

// hold has the engine stop after some more steps.
func (b *brake) hold(after int) {
	b.turn.L.Lock()
	defer b.turn.L.Unlock()
	b.after = after
	b.turn.Broadcast()
}

func (b *brake) Stepped(time.Duration) {
	b.turn.L.Lock()
	defer b.turn.L.Unlock()
	for b.after == 0 {
		b.turn.Wait()
	}
	b.after = max(b.after-1, -1)
}

func (b *brake) Admitted(int64, time.Duration, *engine.Request) {}
func (b *brake) Left(int64)                                     {}
func (b *brake) Priced(float64)                                 {}
func (b *brake) Scheduled(*sched.Schedule)                      {}
func (b *brake) Output(int64, engine.StepOutput)                {}
