package server_test

import (
	"sync"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sched"
)

// brake is a Recorder that holds the engine still after some steps, until it is let go: a request that runs then is under way as
// long as a test needs it, however fast or loaded the machine is. With a pace it slows the engine down instead.
type brake struct {
	pace  time.Duration // added to every step
	after int           // steps that go by first
	free  chan struct{}
	once  sync.Once
}

func newBrake(after int) *brake { return &brake{after: after, free: make(chan struct{})} }

func (b *brake) release() { b.once.Do(func() { close(b.free) }) }

func (b *brake) Stepped(time.Duration) {
	time.Sleep(b.pace)
	if b.after--; b.after < 0 {
		<-b.free
	}
}

func (b *brake) Admitted(int64, time.Duration, *engine.Request) {}
func (b *brake) Left(int64)                                     {}
func (b *brake) Priced(float64)                                 {}
func (b *brake) Planned(*sched.Plan)                            {}
func (b *brake) Said(int64, engine.Said)                        {}
