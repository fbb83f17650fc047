// Package openai is OpenAI's API: chat completions, completions, responses, embeddings, models. The other APIs convert their requests to
// its chat requests, and its answers to their own form.
package openai

import (
	"fmt"
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// API is the endpoints of OpenAI's API that a model answers; those of kept responses are Kept.
type API struct {
	*serving.Service
	*api.Responder
	kept *Keeping // of responses
}

// New makes the endpoints for a model, whose responses are kept there.
func New(s *serving.Service, r *api.Responder, kept *Keeping) *API {
	return &API{s, r, kept}
}

// Error is an error in OpenAI's shape. Of a request that does not fit into the context it says so in OpenAI's words, by which clients
// know to shorten a conversation.
func Error(e *api.Error) any {
	if e.Code == api.CodeContextLength && e.Limit > 0 {
		said := *e
		said.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages: %s", e.Limit, e.Tokens, e.Message)
		e = &said
	}
	return map[string]any{"error": e}
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
