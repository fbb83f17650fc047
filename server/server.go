// Package server serves a model over HTTP, in the words of the OpenAI API; /v1/messages in Anthropic's,
// /api in Ollama's.
//
//	request ─► id, log, key, limits (server.go, auth.go) ─► decode (chat.go, completion.go, sampling.go)
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
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

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
	s.metrics = newMetrics(m, o.Name)
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.mux.HandleFunc("POST /v1/completions", s.completion)
	s.mux.HandleFunc("POST /v1/chat/completions/render", s.render)
	s.mux.HandleFunc("POST /v1/responses", s.responses)
	s.mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.mux.HandleFunc("POST /v1/messages", s.messages)
	s.mux.HandleFunc("POST /v1/files", s.kept(s.upload))
	s.mux.HandleFunc("GET /v1/files", s.kept(s.files))
	s.mux.HandleFunc("GET /v1/files/{id}", s.kept(s.file))
	s.mux.HandleFunc("GET /v1/files/{id}/content", s.kept(s.fileContent))
	s.mux.HandleFunc("DELETE /v1/files/{id}", s.kept(s.deleteFile))
	s.mux.HandleFunc("POST /v1/batches", s.kept(s.createBatch))
	s.mux.HandleFunc("GET /v1/batches", s.kept(s.listBatches))
	s.mux.HandleFunc("GET /v1/batches/{id}", s.kept(s.batch))
	s.mux.HandleFunc("POST /v1/batches/{id}/cancel", s.kept(s.cancelBatch))
	s.mux.HandleFunc("POST /api/chat", s.ollama(false))
	s.mux.HandleFunc("POST /api/generate", s.ollama(true))
	s.mux.HandleFunc("POST /api/embed", s.ollamaEmbeddings(false))
	s.mux.HandleFunc("POST /api/embeddings", s.ollamaEmbeddings(true))
	s.mux.HandleFunc("POST /api/show", s.show)
	s.mux.HandleFunc("GET /api/tags", s.tags)
	s.mux.HandleFunc("GET /api/ps", s.tags)
	s.mux.HandleFunc("GET /api/version", s.version)
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("GET /v1/models/{name...}", s.oneModel)
	s.mux.HandleFunc("POST /tokenize", s.tokenize)
	s.mux.HandleFunc("POST /detokenize", s.detokenize)
	s.mux.HandleFunc("GET /v1/requests/{id}/explain", s.explain)
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("GET /version", s.version)
	s.mux.HandleFunc("GET /stats", s.stats)
	s.mux.HandleFunc("GET /steps", s.steps)
	s.mux.Handle("GET /{$}", page())
	s.mux.Handle("GET /page.css", page())
	s.mux.Handle("GET /page.js", page())
	s.mux.Handle("GET /engine.js", page())
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &apiError{Status: http.StatusNotFound, Kind: "invalid_request_error", Message: "there is no " + r.Method + " " + r.URL.Path + " here"})
	})
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

// ServeHTTP implements http.Handler: what all requests have in common.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 {
		id = rand.Text()
	}
	w.Header().Set("X-Request-Id", id)
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
