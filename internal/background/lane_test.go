package background

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLane: no more run at once than there are places, and all that is wanted is done.
func TestLane(t *testing.T) {
	l := NewLane(2)
	var running, most, done atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := l.Do(t.Context(), small, func() {
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Millisecond)
				running.Add(-1)
				done.Add(1)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done.Load() != 20 || most.Load() > 2 {
		t.Errorf("%d of 20 were done, %d at once; there are 2 places", done.Load(), most.Load())
	}
}

// TestLaneTurns: an owner waits for one piece of work of each other owner, however much work those have.
func TestLaneTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLane(1)
		var order []string // written by one at a time
		var all sync.WaitGroup
		end := make(chan struct{})
		for _, owner := range []string{"hostile", "hostile", "hostile", "hostile", "a", "b", "a"} {
			all.Go(func() {
				if err := l.Do(WithOwner(t.Context(), owner), small, func() { <-end; order = append(order, owner) }); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // it has the place, or waits for it
		}
		close(end)
		all.Wait()
		if want := []string{"hostile", "a", "b", "hostile", "a", "hostile", "hostile"}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, not %v", order, want)
		}
	})
}

// TestLaneGivenUp: who waits for a place and leaves is not run, and takes no place.
func TestLaneGivenUp(t *testing.T) {
	l := NewLane(1)
	begun, end := make(chan struct{}), make(chan struct{})
	go func() { _ = l.Do(context.Background(), small, func() { close(begun); <-end }) }()
	<-begun
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := l.Do(ctx, small, func() { t.Error("it ran without a place") }); !errors.Is(err, gone) {
		t.Errorf("the error is %v, not why the caller left", err)
	}
	close(end)
	for range 20 {
		if err := l.Do(ctx, small, func() { t.Error("it ran though its caller had left") }); !errors.Is(err, gone) {
			t.Errorf("the error is %v, not why the caller left", err)
		}
	}
	if err := l.Do(t.Context(), small, func() {}); err != nil {
		t.Error(err)
	}
}

// TestLanePanic: a panic comes out of Do, as what it was, and the place is free again.
func TestLanePanic(t *testing.T) {
	l := NewLane(1)
	wrong := errors.New("wrong")
	for range 2 {
		func() {
			defer func() {
				if p, ok := recover().(error); !ok || !errors.Is(p, wrong) {
					t.Errorf("out came %v", p)
				}
			}()
			_ = l.Do(t.Context(), small, func() { panic(wrong) })
		}()
	}
}
