package server

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
)

// ollamaDetails is what /api/tags, /api/ps and /api/show say of a model.
type ollamaDetails struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
}

func (s *Server) ollamaDetails() (ollamaDetails, error) {
	a, err := s.about()
	return ollamaDetails{Format: a.Format, Family: a.Architecture, Families: []string{a.Architecture}, Parameters: roughly(a.Parameters), Quantization: a.Type}, err
}

// roughly is a number of parameters as people say it: 7.3M.
func roughly(n int64) string {
	switch x := float64(n); {
	case x >= 1e9:
		return fmt.Sprintf("%.1fB", x/1e9)
	case x >= 1e6:
		return fmt.Sprintf("%.1fM", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%.1fK", x/1e3)
	}
	return fmt.Sprint(n)
}

// capabilities are what can be done with the model, in Ollama's words.
func (s *Server) capabilities() []string {
	if s.model.Encoder() { // also of rerankers, for which Ollama has no word
		return []string{"embedding"}
	}
	all := []string{"completion"}
	if s.model.CanCallTools() {
		all = append(all, "tools")
	}
	if reasons(s.model.Style()) {
		all = append(all, "thinking")
	}
	return all
}

// tags is GET /api/tags: the one model there is.
func (s *Server) tags(http.ResponseWriter, *http.Request) (any, error) { return s.listOllama(false) }

// ps is GET /api/ps: the same model, which is loaded.
func (s *Server) ps(http.ResponseWriter, *http.Request) (any, error) { return s.listOllama(true) }

func (s *Server) listOllama(loaded bool) (any, error) {
	details, err := s.ollamaDetails()
	if err != nil {
		return nil, err
	}
	about, _ := s.about() // without an error above
	entry := map[string]any{"name": s.options.Name, "model": s.options.Name, "digest": about.Digest, "details": details}
	if !loaded {
		entry["size"], entry["modified_at"], entry["capabilities"] = about.Bytes, s.created, s.capabilities()
	} else {
		weights, cache, activations := s.model.Memory()
		size, onGPU := weights+cache+activations, int64(0)
		if !strings.HasPrefix(s.model.Device(), "cpu") {
			onGPU = size
		}
		// It stays for as long as the server runs; clients show times far off as never.
		entry["size"], entry["size_vram"], entry["context_length"], entry["expires_at"] = size, onGPU, s.model.Context(), s.created.AddDate(200, 0, 0)
	}
	return map[string]any{"models": []any{entry}}, nil
}

// show is POST /api/show: what the model's files say.
func (s *Server) show(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Model string `json:"model"`
		Name  string `json:"name"` // what older clients call it
	}
	if err := decode(w, r, &q); err != nil {
		return nil, err
	}
	if err := (&sampling{Model: ollamaName(cmp.Or(q.Model, q.Name))}).check(s); err != nil {
		return nil, err
	}
	details, err := s.ollamaDetails()
	if err != nil {
		return nil, err
	}
	about, _ := s.about() // without an error above
	info := map[string]any{"general.architecture": about.Architecture, "general.basename": s.model.Name(), "general.parameter_count": about.Parameters}
	for key, value := range about.Config {
		info[about.Architecture+"."+key] = value
	}
	return map[string]any{"details": details, "capabilities": s.capabilities(), "template": about.Template, "model_info": info,
		"parameters": fmt.Sprintf("num_ctx %d", s.model.Context()), "modified_at": s.created}, nil
}
