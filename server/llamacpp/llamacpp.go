// Package llamacpp is the endpoints of llama.cpp's server that are its own: completion, infill, apply-template, props and slots.
package llamacpp

import (
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// API is the endpoints.
type API struct {
	*serving.Service
	*api.Responder
}

// New makes the endpoints for a model.
func New(s *serving.Service, r *api.Responder) *API { return &API{s, r} }

// Routes are the endpoints by their patterns.
func (s *API) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /completion":     s.Timed(s.completion),
		"POST /infill":         s.Timed(s.infill),
		"POST /apply-template": s.Handle(s.applyTemplate),
		"GET /props":           s.Handle(s.props),
		"GET /slots":           s.Handle(s.slots),
	}
}

// applyTemplate is POST /apply-template: the prompt that a conversation becomes.
func (s *API) applyTemplate(w http.ResponseWriter, r *http.Request) (any, error) {
	var q openai.ChatRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	text, _, err := q.Tokens(r.Context(), s.Service)
	return map[string]string{"prompt": text}, err
}

// props is GET /props: what clients ask of a server before they use it.
func (s *API) props(http.ResponseWriter, *http.Request) (any, error) {
	about, err := s.About()
	if err != nil {
		return nil, err
	}
	p := s.Defaults()
	return map[string]any{
		"default_generation_settings": map[string]any{"n_ctx": s.Context(), "params": map[string]any{
			"temperature": p.Sampling.Temperature, "top_k": p.Sampling.TopK, "top_p": p.Sampling.TopP, "min_p": p.Sampling.MinP, "repeat_penalty": p.Sampling.RepetitionPenalty, "n_predict": -1}},
		"total_slots": s.Parallel(), "model_alias": s.Name, "model_path": s.Model.Name(), "chat_template": about.Template, "modalities": map[string]bool{"vision": false, "audio": false},
	}, nil
}

// slots is GET /slots: as many as requests may run at once, of which so many are at work. Which request has which is not told.
func (s *API) slots(http.ResponseWriter, *http.Request) (any, error) {
	running := s.Stats().Running
	all := []any{}
	for i := range s.Parallel() {
		all = append(all, map[string]any{"id": i, "n_ctx": s.Context(), "is_processing": i < running})
	}
	return all, nil
}
