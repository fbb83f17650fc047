package server

import "net/http"

func (s *Server) entry() map[string]any {
	e := map[string]any{"id": s.options.Name, "object": "model", "created": s.created.Unix(), "owned_by": "ridge", "max_model_len": s.model.Context()}
	if q := s.model.Quantization(); q != "" {
		e["quantization"] = q
	}
	return e
}

// models is GET /v1/models.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{s.entry()}})
}

// oneModel is GET /v1/models/NAME.
func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) {
	if err := (&sampling{Model: r.PathValue("name")}).check(s); err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, s.entry())
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
func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": s.options.Version})
}
