package server

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// route says who answers what.
func (s *Server) route() {
	for pattern, handler := range map[string]http.HandlerFunc{
		// OpenAI's API.
		"POST /v1/chat/completions":    s.timed(s.chat),
		"POST /v1/completions":         s.timed(s.completion),
		"POST /v1/responses":           s.timed(s.responses),
		"POST /v1/embeddings":          s.timed(s.embeddings),
		"GET /v1/models":               s.handle(s.models),
		"GET /v1/models/{name...}":     s.handle(s.oneModel),
		"POST /v1/files":               s.kept(s.upload),
		"GET /v1/files":                s.kept(s.files),
		"GET /v1/files/{id}":           s.kept(s.file),
		"GET /v1/files/{id}/content":   s.kept(s.fileContent),
		"DELETE /v1/files/{id}":        s.kept(s.deleteFile),
		"POST /v1/batches":             s.kept(s.createBatch),
		"GET /v1/batches":              s.kept(s.listBatches),
		"GET /v1/batches/{id}":         s.kept(s.batch),
		"POST /v1/batches/{id}/cancel": s.kept(s.cancelBatch),
		// Anthropic's.
		"POST /v1/messages":              s.timed(s.messages),
		"POST /v1/messages/count_tokens": s.handle(s.countTokens),
		// Ollama's.
		"POST /api/chat":       s.timed(s.ollama(false)),
		"POST /api/generate":   s.timed(s.ollama(true)),
		"POST /api/embed":      s.timed(s.ollamaEmbeddings(false)),
		"POST /api/embeddings": s.timed(s.ollamaEmbeddings(true)),
		"POST /api/show":       s.handle(s.show),
		"GET /api/tags":        s.handle(s.tags),
		"GET /api/ps":          s.handle(s.ps),
		"GET /api/version":     s.handle(s.version),
		// vLLM's.
		"POST /v1/chat/completions/render": s.handle(s.render),
		"POST /v1/rerank":                  s.timed(s.rerank),
		"POST /v2/rerank":                  s.timed(s.rerank),
		"POST /rerank":                     s.timed(s.rerank),
		"POST /v1/score":                   s.timed(s.score),
		"POST /score":                      s.timed(s.score),
		"POST /tokenize":                   s.handle(s.tokenize),
		"POST /detokenize":                 s.handle(s.detokenize),
		"GET /health":                      s.health,
		"GET /version":                     s.handle(s.version),
		"GET /metrics":                     promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP,
		// Ridge's own.
		"GET /v1/requests/{id}/explain": s.handle(s.explain),
		"GET /stats":                    s.handle(s.stats),
		"GET /steps":                    s.handle(s.steps),
		"GET /{$}":                      page,
		"GET /page.css":                 page,
		"GET /page.js":                  page,
		"GET /engine.js":                page,
		everywhere:                      s.nowhere,
	} {
		s.mux.HandleFunc(pattern, handler)
	}
}

// everywhere is the pattern of all that no other matches.
const everywhere = "/"

// nowhere answers what nobody else does: a path with another method, or one that is not here.
func (s *Server) nowhere(w http.ResponseWriter, r *http.Request) {
	methods := s.methods(r)
	what := r.Method + " " + r.URL.Path
	if len(methods) == 0 {
		s.fail(w, r, &apiError{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "not_found", Message: "there is no " + what + " here"})
		return
	}
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed+", OPTIONS")
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.fail(w, r, &apiError{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error", Code: "method_not_allowed", Message: "there is no " + what + " here; use " + allowed})
}

// methods are those that a request's path has.
func (s *Server) methods(r *http.Request) (all []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := s.mux.Handler(&other); pattern != everywhere {
			all = append(all, method)
		}
	}
	return all
}
