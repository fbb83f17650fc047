package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ridge-llm/ridge/server/anthropic"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/llamacpp"
	"github.com/ridge-llm/ridge/server/ollama"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
	"github.com/ridge-llm/ridge/server/vllm"
)

// route registers every endpoint: those of the APIs, and the server's own.
func (s *Server) route() {
	for _, group := range append(modelRoutes(s.Service, s.Responder, s.kept),
		apiRoutes{"OpenAI", openai.NewKept(s.Responder, s.kept).Routes()},
		apiRoutes{"Ollama", (&ollama.Librarian{Responder: s.Responder, Open: noLibrary}).Routes()},
		apiRoutes{"OpenAI", s.batches.Routes()},
		apiRoutes{"Anthropic", s.batches.MessagesRoutes()},
		apiRoutes{"Ridge", s.own()},
	) {
		for pattern, handler := range group.routes {
			if slices.Contains(answering, pattern) {
				handler = s.cascaded(pattern, handler)
			}
			s.handle(group.api, pattern, handler)
		}
	}
}

// apiRoutes are endpoints of one API, by their patterns.
type apiRoutes struct {
	api    string
	routes map[string]http.HandlerFunc
}

// modelRoutes are the endpoints of all APIs that a model answers. Its responses are kept there.
func modelRoutes(m *serving.Service, r *api.Responder, kept *openai.Keeping) []apiRoutes {
	return []apiRoutes{
		{"OpenAI", openai.New(m, r, kept).Routes()},
		{"vLLM", vllm.New(m, r).Routes()},
		{"Anthropic", anthropic.New(m, r).Routes()},
		{"Ollama", ollama.New(m, r).Routes()},
		{"llama.cpp", llamacpp.New(m, r).Routes()},
	}
}

// withoutVersion is the pattern of an endpoint that clients also call without /v1, whose base URL they were given without it; "" of others.
func withoutVersion(pattern string) string {
	method, path, _ := strings.Cut(pattern, " ")
	path, ok := strings.CutPrefix(path, "/v1")
	if !ok || !slices.ContainsFunc([]string{"/chat/completions", "/completions", "/responses", "/embeddings", "/models"}, func(p string) bool {
		return path == p || strings.HasPrefix(path, p+"/{")
	}) {
		return ""
	}
	return method + " " + path
}

// own are the endpoints that belong to no API.
func (s *Server) own() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /health":                    s.health,
		"GET /openapi.json":              s.Handle(s.openapi),
		"GET /version":                   s.Handle(s.version),
		"GET /api/version":               s.Handle(s.ollamaVersion),
		"GET /metrics":                   promhttp.HandlerFor(s.registries(), promhttp.HandlerOpts{}).ServeHTTP,
		"GET /v1/requests/{id}/explain":  s.Handle(s.explain),
		"GET /stats":                     s.Handle(s.stats),
		"GET /steps":                     s.Handle(s.steps),
		"GET /{$}":                       page,
		"GET " + pageFiles + "{file...}": page,
		catchAll:                         s.notFound,
	}
}

// registries are the metrics of all models, and of the process: memory, goroutines, descriptors. A soak (bench/soak) reads whether they grow.
func (s *Server) registries() prometheus.Gatherers {
	all := prometheus.Gatherers{processRegistry(), s.Registry()}
	for i := range s.stages {
		all = append(all, s.stages[i].service.Registry())
	}
	return all
}

// processRegistry is the metrics of the process.
func processRegistry() *prometheus.Registry {
	process := prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return process
}

// everywhere is the pattern of all that no other matches.
const catchAll = "/"

// notFound answers what no route matches: a path with another method, or an unknown path.
func (s *entrance) notFound(w http.ResponseWriter, r *http.Request) {
	methods := s.methods(r)
	what := r.Method + " " + r.URL.Path
	if len(methods) == 0 {
		s.Fail(w, r, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "not_found", Message: "there is no " + what + " here"})
		return
	}
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed+", OPTIONS")
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.Fail(w, r, &api.Error{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error", Code: "method_not_allowed", Message: "there is no " + what + " here; use " + allowed})
}

// methods are those that a request's path has.
func (s *entrance) methods(r *http.Request) (all []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := s.mux.Handler(&other); pattern != catchAll {
			all = append(all, method)
		}
	}
	return all
}

// Shape is an error as clients of a path's API expect it.
func Shape(path string, e *api.Error) any {
	switch {
	case strings.HasPrefix(path, "/v1/messages"):
		return anthropic.Error(e)
	case strings.HasPrefix(path, "/api/"):
		return ollama.Error(e)
	}
	return openai.Error(e)
}
