// Package server serves a model over HTTP: OpenAI's API, /v1/messages as Anthropic's, /api as Ollama's.
//
//	request ─► id, log, key, limits (server.go, access) ─► the API's endpoint (routes.go) ─► decode (api)
//	        ─► run (serving) ─► one answer or events, in the API's words
//
//	openai, anthropic, ollama, vllm   an API each: its requests, answers and endpoints
//	access                            keys, tenants, limits; browsers
//	api                               what they share on the side of HTTP
//	serving                           what they share on the side of the model
//	batch, store                      files and batches; each line is like a request that came by itself
//
// A client that goes away ends its requests within a step of the engine.
package server

import (
	"cmp"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/background"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/batch"
	"github.com/ridge-llm/ridge/server/serving"
	"github.com/ridge-llm/ridge/server/store"
)

// Options are a server's settings. The zero value is a good choice on a loopback address.
type Options struct {
	Name    string        // of the model, as clients call it; "" is the model's own
	Keys    []access.Key  // of which a client must send one; none: no key is needed
	Shared  bool          // keys share files, batches, explanations and cached prompts; else each tenant has its own
	Origins []string      // web pages that may call the server from a browser: their origins, or "*"
	Hosts   []string      // names and addresses of the server beside loopback, which requests without a key may be sent to
	Version string        // what /version says
	Log     *slog.Logger  // nil: nothing is logged
	Drain   time.Duration // that requests under way have to end when the server is to stop; 0: 30 s
	Cascade []Stage       // models that are asked before the server's own, and whose answers are the client's where they are sure enough
	Store   *store.Store  // of files and batches, the caller's to close after the server; nil: there are none
}

// Server answers HTTP requests with one model.
type Server struct {
	*serving.Service
	*api.Responder
	options Options
	keys    *access.Ring
	batches *batch.API
	stages  []stage
	mux     *http.ServeMux
}

// New makes the server of a model, which stays the caller's to close.
func New(m *ridge.Model, o Options) *Server {
	if o.Name == "" {
		o.Name = m.Name()
	}
	o.Drain = cmp.Or(o.Drain, drainTime)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	lane := background.NewLane(1)
	s := &Server{
		Service: serving.New(m, o.Name, lane), Responder: &api.Responder{Log: o.Log, Shape: Shape, Lane: lane},
		options: o, keys: access.NewRing(o.Keys, o.Shared, time.Now), mux: http.NewServeMux()}
	s.addStages(o.Cascade, lane)
	s.batches = batch.New(s.Service, s.Responder, o.Store, s.keys, http.HandlerFunc(s.line))
	s.route()
	s.batches.Start()
	return s
}

// SetKeys replaces the API keys, for requests that come from now on. There must be some if there were some.
func (s *Server) SetKeys(keys []access.Key) error {
	if s.keys.Needed() && len(keys) == 0 {
		return errors.New("server: the file of keys has none, and without keys the server would answer every client; restart it for that")
	}
	s.keys.Set(keys)
	return nil
}

// Close stops the work on batches; it is resumed by the next server with the same store.
func (s *Server) Close() {
	s.batches.Close()
}

// line answers a line of a batch as if it had come by itself.
func (s *Server) line(w http.ResponseWriter, r *http.Request) {
	s.guarded(w, r, func(w *statusWriter, r *http.Request) {
		w.client = access.From(r.Context())
		s.mux.ServeHTTP(w, r)
	})
}

// statusWriter remembers the status and the client for the log, and whether the answer has begun.
type statusWriter struct {
	http.ResponseWriter
	status int
	client *access.Client // nil: it is not known, or had no valid key
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
	if s.guarded(w, r.WithContext(api.WithID(r.Context(), id)), s.authorized) {
		panic(http.ErrAbortHandler) // so that the client does not take a part of the answer for all of it
	}
}

// guarded logs a request, and answers it with 500 if h panics; cut reports that it panicked after the answer had begun.
func (s *Server) guarded(rw http.ResponseWriter, r *http.Request, h func(*statusWriter, *http.Request)) (cut bool) {
	began := time.Now()
	w := &statusWriter{ResponseWriter: rw}
	log := s.Log.With("id", w.Header().Get("X-Request-Id"))
	defer func() {
		if p := recover(); p != nil {
			if errors.Is(asError(p), http.ErrAbortHandler) {
				panic(p)
			}
			log.Error("a request panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			if cut = w.status != 0; !cut {
				s.Fail(w, r, api.InternalError)
			}
		}
		args := []any{"method", r.Method, "path", r.URL.Path, "status", w.status, "took", time.Since(began), "from", r.RemoteAddr}
		if w.client != nil {
			prompt, output := w.client.Tokens()
			args = append(args, "key", w.client.Tenant, "prompt_tokens", prompt, "output_tokens", output)
		}
		log.Info("request", args...)
	}()
	h(w, r)
	return false
}

// authorized answers requests with a valid key that are within its limits; without keys, those that no foreign page can have sent.
func (s *Server) authorized(w *statusWriter, r *http.Request) {
	if done := s.cors(w, r); done {
		return
	}
	c, ok := s.keys.Client(r)
	switch {
	case !s.keys.Needed():
		if err := s.browser().Check(r); err != nil && r.URL.Path != "/health" {
			s.Fail(w, r, err)
			return
		}
	case open(r.URL.Path) && !ok:
		c = &access.Client{}
	case !ok:
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.Fail(w, r, &api.Error{Status: http.StatusUnauthorized, Kind: "authentication_error", Code: "invalid_api_key", Message: "the API key is missing or wrong; send it as Authorization: Bearer KEY"})
		return
	}
	w.client = c
	if ofAllTenants(r.URL.Path) && !c.Admin {
		s.Fail(w, r, &api.Error{Status: http.StatusForbidden, Kind: "permission_error", Code: "not_admin", Message: r.URL.Path + " tells of the requests of all keys; use a key that is marked admin in the file of keys"})
		return
	}
	if r.Method == http.MethodPost {
		end, err := c.Begin()
		if err != nil {
			s.Fail(w, r, err)
			return
		}
		defer end()
	}
	s.mux.ServeHTTP(w, r.WithContext(access.With(r.Context(), c)))
}

// browser is what browsers may do without a key.
func (s *Server) browser() access.Browser {
	return access.Browser{Hosts: s.options.Hosts, Origins: s.options.Origins}
}

// ofAllTenants reports whether a path tells of the requests of all tenants.
func ofAllTenants(path string) bool {
	switch path {
	case "/metrics", "/stats", "/steps", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/lora-adapters":
		return true
	}
	return false
}

func asError(p any) error {
	err, _ := p.(error)
	return err
}
