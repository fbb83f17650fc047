package server

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/ridge-llm/ridge/server/api"
)

// front answers in place of a server that is still being loaded.
type front struct{ ready atomic.Pointer[Server] }

// loadingRetry is how many seconds a client should wait before it asks again whether the model is loaded.
const loadingRetry = 2

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s := f.ready.Load(); s != nil {
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
	api.WriteJSON(w, e.Status, shape(r.URL.Path, e))
}
