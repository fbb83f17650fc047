package api

import (
	"context"
	"sync"
)

// life is how long a request is under way: until it is answered, and what goes on in the background for it has ended.
type life struct {
	mu   sync.Mutex
	uses int
	ends []func()
}

type lifeKey struct{}

// WithLife is a context of a request that is under way until end is called, and those of Extend that were returned meanwhile.
func WithLife(ctx context.Context) (_ context.Context, end func()) {
	l := &life{uses: 1}
	return context.WithValue(ctx, lifeKey{}, l), sync.OnceFunc(l.end)
}

// Extend has a request be under way until end is called.
func Extend(ctx context.Context) (end func()) {
	l, ok := ctx.Value(lifeKey{}).(*life)
	if !ok {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uses++
	return sync.OnceFunc(l.end)
}

// AtEnd has f called when a request is not under way any more, before those that were given earlier.
func AtEnd(ctx context.Context, f func()) {
	l := ctx.Value(lifeKey{}).(*life) // every request has one: entrance.guarded
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, f)
}

func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uses--; l.uses > 0 {
		return
	}
	for i := len(l.ends) - 1; i >= 0; i-- {
		l.ends[i]()
	}
}
