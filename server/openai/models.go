package openai

import "net/http"

// entry is what lists say of the model.
func (s *API) entry() map[string]any {
	e := map[string]any{"id": s.Name, "object": "model", "created": s.Created.Unix(), "owned_by": "ridge", "max_model_len": s.Context()}
	if q := s.Quantization(); q != "" {
		e["quantization"] = q
	}
	return e
}

// models is GET /v1/models.
func (s *API) models(http.ResponseWriter, *http.Request) (any, error) {
	return map[string]any{"object": "list", "data": []any{s.entry()}}, nil
}

// oneModel is GET /v1/models/NAME.
func (s *API) oneModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.entry(), (&Sampling{Model: r.PathValue("name")}).Check(s.Service)
}
