// Package vllm is the endpoints that vLLM adds to OpenAI's API: rerank, score, tokenize, render, adapters.
package vllm

import (
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// API is the endpoints that vLLM adds to OpenAI's API.
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
		"POST /v1/chat/completions/render": s.Handle(s.render),
		"POST /v1/rerank":                  s.Timed(s.rerank),
		"POST /v2/rerank":                  s.Timed(s.rerank),
		"POST /rerank":                     s.Timed(s.rerank),
		"POST /v1/score":                   s.Timed(s.score),
		"POST /score":                      s.Timed(s.score),
		"POST /v1/load_lora_adapter":       s.Handle(s.loadAdapter),
		"POST /v1/unload_lora_adapter":     s.Handle(s.unloadAdapter),
		"GET /lora-adapters":               s.Handle(s.listAdapters),
		"POST /lora-adapters":              s.Handle(s.applyAdapters),
		"GET /tokenizer_info":              s.Handle(s.tokenizerInfo),
		"POST /tokenize":                   s.Handle(s.tokenize),
		"POST /detokenize":                 s.Handle(s.detokenize),
	}
}
