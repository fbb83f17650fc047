package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/background"
)

// TestLargeBodiesWait: while a large body is worked on others wait, small ones do not, and a client that leaves does not wait on.
func TestLargeBodiesWait(t *testing.T) {
	s := &Responder{Lane: background.NewLane(1)}
	read := func(ctx context.Context, n int) error {
		r := httptest.NewRequestWithContext(ctx, "POST", "/", strings.NewReader(`{"x":"`+strings.Repeat("a", n)+`"}`))
		var v struct{ X string }
		err := s.ReadBody(httptest.NewRecorder(), r, &v)
		if err == nil && len(v.X) != n {
			t.Errorf("%d of %d bytes were read", len(v.X), n)
		}
		return err
	}
	busy, free := make(chan struct{}), make(chan struct{})
	go func() { _ = s.Lane.Do(context.Background(), 1<<20, func() { close(busy); <-free }) }()
	<-busy
	if err := read(t.Context(), 100); err != nil {
		t.Errorf("a small body: %v", err)
	}
	ctx, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer leave()
	if err := read(ctx, 1<<20); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a large body was not kept waiting: %v", err)
	}
	close(free)
	if err := read(t.Context(), 1<<20); err != nil {
		t.Errorf("a large body, when there is a place: %v", err)
	}
}
