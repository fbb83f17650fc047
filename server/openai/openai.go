// Package openai is OpenAI's API: chat completions, completions, responses, embeddings, models. The other APIs convert their requests to
// its chat requests, and its answers to their own form.
package openai

import (
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// API is the endpoints of OpenAI's API but for files and batches.
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
		"POST /v1/chat/completions": s.Timed(s.chat),
		"POST /v1/completions":      s.Timed(s.completion),
		"POST /v1/responses":        s.Timed(s.responses),
		"POST /v1/embeddings":       s.Timed(s.embeddings),
		"GET /v1/models":            s.Handle(s.models),
		"GET /v1/models/{name...}":  s.Handle(s.oneModel),
	}
}
