// Package anthropic is Anthropic's API: messages and the counting of their tokens.
package anthropic

import (
	"fmt"
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// API is the endpoints of Anthropic's API.
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
		"POST /v1/messages":              s.Timed(s.messages),
		"POST /v1/messages/count_tokens": s.Handle(s.countTokens),
	}
}

// Error is an error in Anthropic's shape.
func Error(e *api.Error) any {
	kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 405: "invalid_request_error", 413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error"}[e.Status]
	if kind == "" {
		kind = "api_error"
	}
	message := e.Message
	if e.Code == api.CodeContextLength && e.Limit > 0 { // in Anthropic's words, by which clients know to shorten a conversation
		message = fmt.Sprintf("prompt is too long: %d tokens > %d maximum (%s)", e.Tokens, e.Limit, e.Message)
	}
	inner := map[string]any{"type": kind, "message": message}
	if e.Details != nil {
		inner["details"] = e.Details
	}
	return map[string]any{"type": "error", "error": inner}
}
