// Package server serves a model over HTTP, in the words of the OpenAI API; /v1/messages in Anthropic's,
// /api in Ollama's.
//
//	request ─► id, log, key, limits (server.go, auth.go) ─► its handler (routes.go) ─► decode (chat.go, completion.go, sampling.go)
//	        ─► run (run.go) ─► one answer (chat_answer.go, completion_answer.go) or events (stream.go)
//
//	batch ─► lines (batch_line.go), each like a request that came by itself ─► journal (store)
//
// A client that goes away ends its requests within a step of the engine. Errors have OpenAI's shape (error.go).
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/store"
)

// Options are a server's settings. The zero value is a good choice on a loopback address.
type Options struct {
	Name    string       // of the model, as clients call it; "" is the model's own
	Keys    []string     // one of which a client must show; none: everybody may come
	Origins []string     // web pages that may call the server from a browser: their origins, or "*"
	Version string       // what /version says
	Log     *slog.Logger // nil: nothing is logged
	Store   *store.Store // of files and batches, the caller's to close after the server; nil: there are none
}

// Server answers HTTP requests with one model.
type Server struct {
	model     *ridge.Model
	options   Options
	keys      keys
	log       *slog.Logger
	metrics   *metrics
	batches   *batchRunner
	explained explanations
	about     func() (ridge.About, error) // the model's, read once
	created   time.Time
	mux       *http.ServeMux
}

// New makes the server of a model, which stays the caller's to close.
func New(m *ridge.Model, o Options) *Server {
	if o.Name == "" {
		o.Name = m.Name()
	}
	s := &Server{model: m, options: o, keys: newKeys(o.Keys), log: o.Log, created: time.Now(), mux: http.NewServeMux()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.about = sync.OnceValues(m.About)
	s.metrics = newMetrics(m, o.Name)
	s.route()
	if o.Store != nil {
		s.batches = s.startBatches()
	}
	return s
}

// Close ends the work on batches, which goes on when a server is made with the same store again.
func (s *Server) Close() {
	if s.batches != nil {
		s.batches.close()
	}
}

// statusWriter remembers the status for the log, and whether the answer has begun.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// identify gives a request its id, the client's own if it has one, and sends it back.
func identify(w http.ResponseWriter, r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 {
		id = rand.Text()
	}
	w.Header().Set("X-Request-Id", id)
	if strings.HasPrefix(r.URL.Path, "/v1/messages") {
		w.Header().Set("Request-Id", id) // where Anthropic's clients look
	}
	return id
}

// ServeHTTP implements http.Handler: what all requests have in common.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := identify(w, r)
	// The connection may have the deadline of an earlier answer.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	if s.guarded(w, r.WithContext(context.WithValue(r.Context(), idKey{}, id)), http.HandlerFunc(s.admitted)) {
		panic(http.ErrAbortHandler) // so that the client does not take what it has for the whole
	}
}

// guarded logs a request, and answers it with 500 if h panics; cut reports that h did so in the middle of its answer.
func (s *Server) guarded(rw http.ResponseWriter, r *http.Request, h http.Handler) (cut bool) {
	began := time.Now()
	w := &statusWriter{ResponseWriter: rw}
	log := s.log.With("id", w.Header().Get("X-Request-Id"))
	defer func() {
		if p := recover(); p != nil {
			if errors.Is(asError(p), http.ErrAbortHandler) {
				panic(p)
			}
			log.Error("a request panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			if cut = w.status != 0; !cut {
				s.fail(w, r, internalError)
			}
		}
		log.Info("request", "method", r.Method, "path", r.URL.Path, "status", w.status, "took", time.Since(began))
	}()
	h.ServeHTTP(w, r)
	return false
}

// admitted answers those who may come.
func (s *Server) admitted(w http.ResponseWriter, r *http.Request) {
	if done := s.cors(w, r); done {
		return
	}
	if !open(r.URL.Path) && !s.keys.allow(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.fail(w, r, &apiError{Status: http.StatusUnauthorized, Kind: "authentication_error", Code: "invalid_api_key", Message: "the API key is missing or wrong; send it as Authorization: Bearer KEY"})
		return
	}
	s.mux.ServeHTTP(w, r)
}

func asError(p any) error {
	err, _ := p.(error)
	return err
}
