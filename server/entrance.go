package server

import (
	"cmp"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/internal/background"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
)

// entrance is what all requests go through before the endpoint that they are for: the log, keys and their limits, what browsers may do.
type entrance struct {
	*api.Responder
	options   Options
	keys      *access.Ring
	mux       *http.ServeMux // the endpoints
	described openAPI        // them, for /openapi.json
}

// newEntrance is an entrance without endpoints.
func newEntrance(o Options) *entrance {
	o.Drain = cmp.Or(o.Drain, drainTime)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &entrance{Responder: &api.Responder{Log: o.Log, Shape: Shape, Lane: background.NewLane(1)},
		options: o, keys: access.NewRing(o.Keys, o.Shared, time.Now), mux: http.NewServeMux(), described: newOpenAPI(o.Version)}
}

// SetKeys replaces the API keys, for requests that come from now on. There must be some if there were some.
func (s *entrance) SetKeys(keys []access.Key) error {
	if s.keys.Needed() && len(keys) == 0 {
		return errors.New("server: the file of keys has none, and without keys the server would answer every client; restart it for that")
	}
	s.keys.Set(keys)
	return nil
}

// line answers a line of a batch as if it had come by itself.
func (s *entrance) line(w http.ResponseWriter, r *http.Request) {
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
func (s *entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := identify(w, r)
	// The connection may have the deadline of an earlier answer.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	if s.guarded(w, r.WithContext(api.WithID(r.Context(), id)), s.authorized) {
		panic(http.ErrAbortHandler) // so that the client does not take a part of the answer for all of it
	}
}

// guarded logs a request, and answers it with 500 if h panics; cut reports that it panicked after the answer had begun.
func (s *entrance) guarded(rw http.ResponseWriter, r *http.Request, h func(*statusWriter, *http.Request)) (cut bool) {
	began := time.Now()
	w := &statusWriter{ResponseWriter: rw}
	log := s.Log.With("id", w.Header().Get("X-Request-Id"))
	ctx, end := api.WithLife(r.Context())
	r = r.WithContext(ctx)
	defer end()
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
			if cached, first, rate := w.client.Pace(); first > 0 {
				args = append(args, "cached_tokens", cached, "ttft", first, "tokens_per_second", math.Round(10*rate)/10)
			}
		}
		log.Info("request", args...)
	}()
	h(w, r)
	return false
}

// authorized answers requests with a valid key that are within its limits; without keys, those that no foreign page can have sent.
func (s *entrance) authorized(w *statusWriter, r *http.Request) {
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
	case (open(r.URL.Path) || s.openMetrics(r.URL.Path)) && !ok:
		c = &access.Client{}
	case !ok:
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.Fail(w, r, &api.Error{Status: http.StatusUnauthorized, Kind: "authentication_error", Code: "invalid_api_key", Message: "the API key is missing or wrong; send it as Authorization: Bearer KEY"})
		return
	}
	w.client = c
	if ofAllTenants(r.URL.Path) && !c.Admin && !s.openMetrics(r.URL.Path) {
		s.Fail(w, r, &api.Error{Status: http.StatusForbidden, Kind: "permission_error", Code: "not_admin", Message: r.URL.Path + " tells of the requests of all keys; use a key that is marked admin in the file of keys"})
		return
	}
	if r.Method == http.MethodPost {
		end, err := c.Begin()
		if err != nil {
			s.Fail(w, r, err)
			return
		}
		api.AtEnd(r.Context(), end)
	}
	s.mux.ServeHTTP(w, r.WithContext(access.With(r.Context(), c)))
}

// browser is what browsers may do without a key.
func (s *entrance) browser() access.Browser {
	return access.Browser{Hosts: s.options.Hosts, Origins: s.options.Origins}
}

// openMetrics reports whether a path is that of the metrics, which need no key.
func (s *entrance) openMetrics(path string) bool { return s.options.OpenMetrics && path == "/metrics" }

// ofAllTenants reports whether a path tells of the requests of all tenants.
func ofAllTenants(path string) bool {
	switch path {
	case "/metrics", "/stats", "/steps", "/slots", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/lora-adapters":
		return true
	}
	return false
}

func asError(p any) error {
	err, _ := p.(error)
	return err
}
