package server

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
)

// Site is what a Front answers with: a Server, or Models.
type Site interface {
	http.Handler
	SetKeys([]access.Key) error
	Wait() error                 // until it answers no more: nil after it was closed, and else what broke
	Drain(context.Context) error // refuses new requests and waits until those under way have ended
	Close()                      // stops the work on batches
	requests() int               // under way and waiting
	settings() *entrance
}

// requests are those under way and waiting.
func (s *Server) requests() int { return s.Stats().Running + s.Stats().Waiting }

// requests are those of all models that are loaded.
func (s *Models) requests() (n int) {
	for _, x := range s.residents.loaded() {
		n += x.Server.requests()
	}
	return n
}

func (s *entrance) settings() *entrance { return s }

// Front answers with one server after another: with 503 while the first is being loaded, then with that, then with what replaces it.
type Front struct {
	log     *slog.Logger
	current atomic.Pointer[Site]
	failed  chan error // why loading failed, or the current server's model
}

// NewFront is a front without a server.
func NewFront(log *slog.Logger) *Front { return &Front{log: log, failed: make(chan error, 1)} }

// Current is the server that answers; nil before there is one.
func (f *Front) Current() Site {
	if s := f.current.Load(); s != nil {
		return *s
	}
	return nil
}

// Replace has s answer all requests that come from now on, and returns the server before it, which ends what it has.
func (f *Front) Replace(s Site) (old Site) {
	if was := f.current.Swap(&s); was != nil {
		old = *was
	}
	go f.watch(s)
	return old
}

// loadingRetry is how many seconds a client should wait before it asks again whether the model is loaded.
const loadingRetry = 2

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s := f.Current(); s != nil {
		s.ServeHTTP(w, r)
		return
	}
	identify(w, r)
	w.Header().Set("Retry-After", strconv.Itoa(loadingRetry))
	if r.URL.Path == "/health" {
		api.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "loading", "reason": "the model is being loaded"})
		return
	}
	e := &api.Error{Status: http.StatusServiceUnavailable, Kind: "server_error", Code: "loading", Message: "the model is being loaded; try again soon"}
	api.WriteJSON(w, e.Status, Shape(r.URL.Path, e))
}
