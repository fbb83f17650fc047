// Package ollama is Ollama's API: chat, generate, embed, and what it says of models.
package ollama

import (
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// API is the endpoints of Ollama's API.
type API struct {
	*serving.Service
	*api.Responder
}

// New makes the endpoints for a model.
func New(s *serving.Service, r *api.Responder) *API {
	return &API{s, r}
}

// Routes are the endpoints by their patterns.
func (s *API) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /api/chat":       s.Timed(s.ollama(false)),
		"POST /api/generate":   s.Timed(s.ollama(true)),
		"POST /api/embed":      s.Timed(s.ollamaEmbeddings(false)),
		"POST /api/embeddings": s.Timed(s.ollamaEmbeddings(true)),
		"POST /api/show":       s.Handle(s.show),
		"GET /api/tags":        s.Handle(s.tags),
		"GET /api/ps":          s.Handle(s.ps),
	}
}

// Error is an error in Ollama's shape.
func Error(e *api.Error) any { return map[string]string{"error": e.Message} }
