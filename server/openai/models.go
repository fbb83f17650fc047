package openai

import (
	"net/http"

	"github.com/ridge-llm/ridge"
)

// entry is what lists say of the model.
func (s *API) entry() map[string]any {
	e := map[string]any{"id": s.Name, "object": "model", "created": s.Created.Unix(), "owned_by": "ridge", "max_model_len": s.Context()}
	if q := s.Quantization(); q != "" {
		e["quantization"] = q
	}
	return e
}

// adapterEntry is what lists say of an adapter, with the model that it is for.
func (s *API) adapterEntry(a ridge.Adapter) map[string]any {
	return map[string]any{"id": a.Name, "object": "model", "created": s.Created.Unix(), "owned_by": "ridge", "max_model_len": s.Context(), "root": a.Path, "parent": s.Name}
}

// models is GET /v1/models.
func (s *API) models(http.ResponseWriter, *http.Request) (any, error) {
	list := []any{s.entry()}
	for _, a := range s.Adapters() {
		list = append(list, s.adapterEntry(a))
	}
	return map[string]any{"object": "list", "data": list}, nil
}

// oneModel is GET /v1/models/NAME.
func (s *API) oneModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	name := r.PathValue("name")
	for _, a := range s.Adapters() {
		if a.Name == name {
			return s.adapterEntry(a), nil
		}
	}
	return s.entry(), (&Sampling{Model: name}).Check(s.Service)
}
