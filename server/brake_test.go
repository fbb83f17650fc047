package server_test

import (
	"sync"

	"github.com/ridge-llm/ridge"
)

// brake holds a model's engine still after some steps, until it is let go: a request that runs then is under way as
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

// step is for Model.OnStep.
func (b *brake) step(ridge.Step) {
	b.turn.L.Lock()
	defer b.turn.L.Unlock()
	for b.after == 0 {
		b.turn.Wait()
	}
	b.after = max(b.after-1, -1)
}
