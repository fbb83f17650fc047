package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/batch"
	"github.com/ridge-llm/ridge/server/ollama"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// ModelsOptions are the settings of a server of several models.
type ModelsOptions struct {
	Options                                         // Name and Cascade are not used
	List      func() ([]ModelFile, error)           // the models that there are now
	Load      func(ModelFile) (*ridge.Model, error) // one at a time; ridge.ErrMemory has a model unloaded and Load called again
	Default   string                                // the model of requests that name none; "": they must name one, if there are several
	KeepAlive time.Duration                         // that a model without requests stays in memory; 0: 5 minutes; below 0: for ever
	Most      int                                   // models that are loaded at once; 0: as many as there is memory for
	Library   Library                               // lets clients pull, delete and name models; nil: they may not
}

// DefaultKeepAlive is how long a model without requests stays in memory unless something else is asked for.
const DefaultKeepAlive = 5 * time.Minute

// Models answers HTTP requests with the models that they name, and loads those on demand. A loaded model is a Server behind this one's entrance.
type Models struct {
	*entrance
	o         ModelsOptions
	batches   *batch.API
	kept      *openai.Keeping
	residents *residents
	stopped   chan struct{} // closed by Close
	closing   sync.Once

	mu    sync.Mutex
	files []ModelFile // as last listed
	about map[string]described
}

// described is what a model's files were found to say.
type described struct {
	modified time.Time
	about    ridge.About
}

// NewModels makes the server of several models and begins to load those that are pinned. Close unloads what it has loaded.
func NewModels(o ModelsOptions) (*Models, error) {
	o.KeepAlive = cmp.Or(o.KeepAlive, DefaultKeepAlive)
	s := &Models{entrance: newEntrance(o.Options), o: o, kept: openai.NewKeeping(o.Store), stopped: make(chan struct{}), about: map[string]described{}}
	one := o.Options
	one.Store, one.Keys, one.Log, one.Cascade = nil, nil, s.Log, nil
	ctx, stop := context.WithCancel(context.Background())
	s.residents = &residents{log: s.Log, load: o.Load, keep: o.KeepAlive, most: o.Most, ctx: ctx, stop: stop, turn: make(chan struct{}, 1), all: map[string]*resident{},
		open: func(m *ridge.Model, f ModelFile) *Server {
			one := one
			one.Name = f.Name
			x := newServer(m, one, s.kept)
			x.Preset = f.Preset
			if f.Adapter != "" {
				x.SetAppliedAdapters(map[string]float32{AdapterName(f): 1})
			}
			x.Called = func(name string) bool { return s.calls(f.Name, name) }
			return x
		}}
	s.batches = batch.New(s, s.Responder, o.Store, s.keys, http.HandlerFunc(s.line))
	s.route()
	files, err := s.list()
	if err != nil {
		stop()
		return nil, err
	}
	for _, f := range files {
		if f.Pinned {
			_, release, err := s.residents.use(ctx, f, nil)
			if err != nil {
				s.residents.close()
				return nil, fmt.Errorf("server: the pinned model %s: %w", f.Name, err)
			}
			release()
		}
	}
	s.batches.Start()
	return s, nil
}

// route registers the endpoints: those of one model's server that change or ask something, for the model that they name, and this one's own.
func (s *Models) route() {
	for _, group := range modelRoutes(&serving.Service{}, s.Responder, s.kept) {
		for pattern := range group.routes {
			if strings.HasPrefix(pattern, "POST ") {
				s.handle(group.api, pattern, s.named)
			}
		}
	}
	for _, group := range []apiRoutes{
		{"OpenAI", s.batches.Routes()},
		{"Anthropic", s.batches.MessagesRoutes()},
		{"OpenAI", openai.NewKept(s.Responder, s.kept).Routes()},
		{"OpenAI", map[string]http.HandlerFunc{"GET /v1/models": s.Handle(s.listModels), "GET /v1/models/{name...}": s.Handle(s.oneModel)}},
		{"Ollama", (&ollama.Librarian{Responder: s.Responder, Open: s.openLibrary}).Routes()},
		{"Ollama", map[string]http.HandlerFunc{"GET /api/tags": s.Handle(s.tags), "GET /api/ps": s.Handle(s.ps)}},
		{"vLLM", map[string]http.HandlerFunc{"GET /lora-adapters": s.ofLoaded}},
		{"llama.cpp", map[string]http.HandlerFunc{"GET /props": s.ofLoaded, "GET /slots": s.ofLoaded}},
		{"Ridge", s.own()},
	} {
		for pattern, handler := range group.routes {
			s.handle(group.api, pattern, handler)
		}
	}
}

// own are the endpoints that belong to no API.
func (s *Models) own() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /health": func(w http.ResponseWriter, _ *http.Request) {
			api.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		},
		"GET /openapi.json": s.Handle(s.openapi),
		"GET /version":      s.Handle(s.version),
		"GET /api/version":  s.Handle(s.ollamaVersion),
		"GET /metrics": func(w http.ResponseWriter, r *http.Request) {
			promhttp.HandlerFor(s.registries(), promhttp.HandlerOpts{}).ServeHTTP(w, r)
		},
		"GET /v1/requests/{id}/explain":  s.explain,
		"GET /stats":                     s.ofLoaded,
		"GET /steps":                     s.ofLoaded,
		"GET /{$}":                       page,
		"GET " + pageFiles + "{file...}": page,
		catchAll:                         s.notFound,
	}
}

// handle registers an endpoint of an API, under its path without /v1 too where clients call it so.
func (s *entrance) handle(api, pattern string, handler http.HandlerFunc) {
	for _, p := range []string{pattern, withoutVersion(pattern)} {
		if p != "" {
			s.mux.HandleFunc(p, handler)
			s.described.describe(api, p)
		}
	}
}

// choice is what of a request's body says which model it is for, and how long that is to stay.
type choice struct {
	Model     string          `json:"model"`
	Name      string          `json:"name"` // what older clients of Ollama call it
	KeepAlive json.RawMessage `json:"keep_alive"`
}

// named answers a request with the model that its body names.
func (s *Models) named(w http.ResponseWriter, r *http.Request) {
	body := &replayed{from: r.Body}
	began := time.Now()
	var c choice
	again := r.WithContext(r.Context())
	again.Body = body.again()
	if err := s.ReadBody(w, again, &c); err != nil {
		s.Fail(w, r, err)
		return
	}
	f, err := s.find(cmp.Or(c.Model, c.Name))
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	keep, err := keepAlive(c.KeepAlive)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	again = api.Again(r, io.NopCloser(bytes.NewReader(body.read.Bytes())), time.Since(began))
	if r.URL.Path == "/api/show" {
		s.show(w, again, f)
		return
	}
	waits, cancel, err := api.Deadline(again)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	server, release, err := s.residents.use(waits, f, keep)
	cancel()
	if err != nil {
		s.Fail(w, r, loadError(r, f, err))
		return
	}
	api.AtEnd(r.Context(), release)
	w.Header().Set("X-Ridge-Model", f.Name)
	server.mux.ServeHTTP(w, api.Again(r, again.Body, time.Since(began)))
}

// loadError is why a model could not be loaded, for a client. What is wrong with a file stays wrong when it is read again: the status is one that clients do not send the request again for,
// as they do for 500, and not 404, for which some pull the model. Ollama's own clients know 500, and ask once.
func loadError(r *http.Request, f ModelFile, err error) error {
	switch {
	case errors.Is(err, ridge.ErrMemory):
		return &api.Error{Status: http.StatusServiceUnavailable, Kind: "server_error", Code: "model_does_not_fit", Message: fmt.Sprintf("the model %s: %s", f.Name, strings.TrimPrefix(err.Error(), "ridge: "))}
	case errors.Is(err, ridge.ErrClosed), errors.Is(err, ridge.ErrDraining), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	e := &api.Error{Status: http.StatusUnprocessableEntity, Kind: "invalid_request_error", Code: "model_not_loaded", Message: fmt.Sprintf("the model %s could not be loaded: %s", f.Name, strings.TrimPrefix(err.Error(), "ridge: "))}
	var system *fs.PathError
	if errors.Is(err, ridge.ErrInternal) || errors.As(err, &system) || strings.HasPrefix(r.URL.Path, "/api/") { // or a fault of the program's, or of a file that cannot be read now
		e.Status, e.Kind = http.StatusInternalServerError, "server_error"
	}
	return e
}

// keepAlive reads Ollama's field: a duration, or seconds; below 0 is for ever. nil: it is not given.
func keepAlive(raw json.RawMessage) (*time.Duration, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw) + "s"
	}
	d, err := ParseKeepAlive(text)
	if err != nil {
		return nil, api.Invalid("keep_alive", "keep_alive is %s; seconds, or a time such as \"10m\", is possible; below 0: for ever", raw)
	}
	return &d, nil
}

// ParseKeepAlive reads a time, or seconds if it has no unit.
func ParseKeepAlive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	return d, err
}

// list asks again which models there are.
func (s *Models) list() ([]ModelFile, error) {
	files, err := s.o.List()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = files
	return files, nil
}

// find is the model that a request names.
func (s *Models) find(name string) (ModelFile, error) {
	s.mu.Lock()
	f, ok := among(s.files, name, s.o.Default)
	s.mu.Unlock()
	if ok {
		return f, nil
	}
	files, err := s.list() // it may have come since
	if err != nil {
		return f, err
	}
	if f, ok = among(files, name, s.o.Default); ok {
		return f, nil
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	if name == "" {
		return f, api.Invalid("model", "model is missing; there are %s", some(names))
	}
	return f, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Param: "model", Code: "model_not_found", Message: fmt.Sprintf("there is no model %q here; there are %s", name, some(names))}
}

// some are the first of many names.
func some(names []string) string {
	const most = 12
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d others (GET /v1/models)", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// calls reports whether a name is another one of a model, by what was last listed: names come and go while the model is loaded.
func (s *Models) calls(model, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := among(s.files, name, "")
	return ok && f.Name == model
}

// among finds a model by one of its names, with Ollama's tag :latest or without, whatever its case if there is none of the same.
func among(files []ModelFile, name, usual string) (ModelFile, bool) {
	if name == "" {
		if usual == "" && len(files) == 1 {
			return files[0], true
		}
		name = usual
	}
	for _, same := range []func(string, string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for _, n := range []string{name, plainName(name)} {
			for _, f := range files {
				if same(f.Name, n) || slices.ContainsFunc(f.Aliases, func(a string) bool { return same(a, n) }) {
					return f, n != ""
				}
			}
		}
	}
	return ModelFile{}, false
}

// ofLoaded answers with the loaded model that ?model= names, or with the one that was used last.
func (s *Models) ofLoaded(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("model")
	for _, x := range s.residents.loaded() {
		if x.Is(name) {
			x.mux.ServeHTTP(w, r)
			return
		}
	}
	s.Fail(w, r, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "model_not_loaded", Message: "no such model is loaded now; the first request that names it loads it"})
}

// explain answers GET /v1/requests/{id}/explain with the model that has answered the request.
func (s *Models) explain(w http.ResponseWriter, r *http.Request) {
	for _, x := range s.residents.loaded() {
		if body, err := x.explain(w, r); err == nil {
			api.WriteJSON(w, http.StatusOK, body)
			return
		}
	}
	s.Fail(w, r, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Message: "there is no finished request " + r.PathValue("id") + " of a model that is loaded now"})
}

// registries are the metrics of the process and of the models that are loaded.
func (s *Models) registries() prometheus.Gatherers {
	all := prometheus.Gatherers{processRegistry()}
	for _, x := range s.residents.loaded() {
		all = append(all, x.Registry())
	}
	return all
}

// Parallel and Waiting are for the runner of batches: what the models that are loaded do together.
func (s *Models) Parallel() int {
	n := 0
	for _, x := range s.residents.loaded() {
		n = max(n, x.Service.Parallel())
	}
	return max(1, n)
}

// Waiting is how many requests wait.
func (s *Models) Waiting() (n int) {
	for _, x := range s.residents.loaded() {
		n += x.Service.Waiting()
	}
	return n
}

// line answers a line of a batch as if it had come by itself.
func (s *Models) line(w http.ResponseWriter, r *http.Request) {
	s.guarded(w, r, func(w *statusWriter, r *http.Request) {
		w.client = access.From(r.Context())
		s.mux.ServeHTTP(w, r)
	})
}

// Drain refuses new requests and waits until those under way have ended, or ctx is done.
func (s *Models) Drain(ctx context.Context) error { return s.residents.drain(ctx) }

// Wait waits until Close: a model that fails is loaded again by the next request.
func (s *Models) Wait() error {
	<-s.stopped
	return nil
}

// Close stops the work on batches, and responses that are made in the background. CloseModels unloads the models.
func (s *Models) Close() {
	s.closing.Do(func() { close(s.stopped) })
	s.kept.Close()
	s.batches.Close()
}

// CloseModels unloads all models, after Close.
func (s *Models) CloseModels() { s.residents.close() }
