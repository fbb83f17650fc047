package server

import (
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/ridge-llm/ridge/server/api"
)

// Front answers with one server after another: with 503 while the first is being loaded, then with that, then with what replaces it.
type Front struct {
	log     *slog.Logger
	current atomic.Pointer[Server]
	failed  chan error // why loading failed, or the current server's model
}

// NewFront is a front without a server.
func NewFront(log *slog.Logger) *Front { return &Front{log: log, failed: make(chan error, 1)} }

// Current is the server that answers; nil before there is one.
func (f *Front) Current() *Server { return f.current.Load() }

// Replace has s answer all requests that come from now on, and returns the server before it, which ends what it has.
func (f *Front) Replace(s *Server) (old *Server) {
	old = f.current.Swap(s)
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
