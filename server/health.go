package server

import (
	"errors"
	"net/http"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
)

// health is GET /health: whether requests are taken now.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.Service.Err(); err != nil {
		status := "stopping"
		if errors.Is(err, ridge.ErrModelFile) {
			status = "failed"
		}
		api.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"status": status, "reason": err.Error()})
		return
	}
	api.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// version is GET /version.
func (s *entrance) version(http.ResponseWriter, *http.Request) (any, error) {
	return map[string]string{"version": s.options.Version}, nil
}

// ollamaAPI is the version of Ollama whose API this is, which its clients ask for before they use a feature.
const ollamaAPI = "0.6.4"

// ollamaVersion is GET /api/version.
func (s *entrance) ollamaVersion(http.ResponseWriter, *http.Request) (any, error) {
	return map[string]string{"version": ollamaAPI, "ridge": s.options.Version}, nil
}
