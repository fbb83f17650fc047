// Package background runs work that must not hold up the steps of an engine on the same processors: parsing large bodies, making tokens of long texts,
// compiling grammars.
//
// Go's scheduler has no priorities. A goroutine that computes keeps a processor for up to 10 ms, in which a worker of the engine waits that the others wait for
// in turn. The system's scheduler has them: such work gets a thread of its own with a low one.
package background

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// Lane lets some functions run at a time: those of an owner in the order in which they came, and of several owners by turns. A nil one runs them at once, where
// they are called.
type Lane struct{ queue *Queue }

// small is the bytes that are worked on in less time than it takes to start a thread and wait for it.
const small = 4 << 10

// NewLane makes a lane for n at a time.
func NewLane(n int) *Lane { return &Lane{NewQueue(n, 0)} }

// ownerKey is under which a context has the owner of work.
type ownerKey struct{}

// WithOwner is a context for the work of an owner.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// Owner is the owner that a context names; "": none.
func Owner(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return owner
}

// Do runs f, which has so many bytes to work on. If they are not few it waits for a place, by the owner that ctx names, and f gets a thread of low
// priority; if ctx is done before f has begun, f is not run and the error is ctx's cause. A panic of f is one of Do's, a *Panic. While steps take all processors the place
// stays empty for a while after f, which the caller does not wait for.
func (l *Lane) Do(ctx context.Context, bytes int, f func()) error {
	if l == nil || bytes < small {
		f()
		return nil
	}
	if err := l.queue.Acquire(ctx, Owner(ctx)); err != nil {
		return err
	}
	var took time.Duration
	defer func() {
		if rest := restAfter(took); rest > 0 {
			time.AfterFunc(rest, l.queue.Release)
		} else {
			l.queue.Release()
		}
	}()
	if ctx.Err() != nil { // there may be a place all the same
		return context.Cause(ctx)
	}
	Run(func(*Turns) {
		began := threadTime()
		defer func() { took = threadTime() - began }()
		f()
	})
	return nil
}

// Run runs f in a thread of low priority and returns when it is done. A panic of f is one of Run's, a *Panic. What takes longer than a millisecond or two ends its turns
// now and then.
func Run(f func(*Turns)) {
	var panicked any
	done := make(chan struct{})
	start(func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				panicked = &Panic{p, debug.Stack()}
			}
		}()
		f(&Turns{threadTime()})
	})
	<-done
	if panicked != nil {
		panic(panicked)
	}
}

// Panic is what a function panicked with, and where.
type Panic struct {
	Value any
	Stack []byte
}

// Error implements error.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n%s", p.Value, p.Stack) }

// Unwrap is the value, if that is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
