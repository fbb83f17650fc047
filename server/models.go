package server

import "net/http"

// entry is what lists say of the model.
func (s *Server) entry() map[string]any {
	e := map[string]any{"id": s.options.Name, "object": "model", "created": s.created.Unix(), "owned_by": "ridge", "max_model_len": s.model.Context()}
	if q := s.model.Quantization(); q != "" {
		e["quantization"] = q
	}
	return e
}

// models is GET /v1/models.
func (s *Server) models(http.ResponseWriter, *http.Request) (any, error) {
	return map[string]any{"object": "list", "data": []any{s.entry()}}, nil
}

// oneModel is GET /v1/models/NAME.
func (s *Server) oneModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.entry(), (&sampling{Model: r.PathValue("name")}).check(s)
}

// health is GET /health: whether requests are taken now.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.model.Err(); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "stopping", "reason": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// version is GET /version.
func (s *Server) version(http.ResponseWriter, *http.Request) (any, error) {
	return map[string]string{"version": s.options.Version}, nil
}
