package main

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestReadingLine(t *testing.T) {
	r := &reading{total: 1500, done: new(atomic.Int64)}
	for _, c := range []struct {
		done int64
		want string
	}{{0, "reading the prompt: 0 of 1500 tokens"}, {500, "reading the prompt: 500 of 1500 tokens, 8s left"}, {1600, "reading the prompt: 1500 of 1500 tokens"}} {
		r.done.Store(c.done)
		if got := r.line(4 * time.Second); got != c.want {
			t.Errorf("%d: %q, want %q", c.done, got, c.want)
		}
	}
}
