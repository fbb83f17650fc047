package ollama

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/ridge-llm/ridge/server/openai"
)

// details is what /api/tags, /api/ps and /api/show say of a model.
type details struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
}

func (s *API) ollamaDetails() (details, error) {
	a, err := s.About()
	return details{Format: a.Format, Family: a.Architecture, Families: []string{a.Architecture}, Parameters: roughly(a.Parameters), Quantization: a.Type}, err
}

// roughly is a number of parameters in short: 7.3M.
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

// capabilities are what the model can do, by Ollama's names.
func (s *API) capabilities() []string {
	if s.Encoder() { // also of rerankers, for which Ollama has no word
		return []string{"embedding"}
	}
	all := []string{"completion"}
	if s.CanCallTools() {
		all = append(all, "tools")
	}
	if reasons(s.Style()) {
		all = append(all, "thinking")
	}
	return all
}

// tags is GET /api/tags: the one model there is.
func (s *API) tags(http.ResponseWriter, *http.Request) (any, error) { return s.listOllama(false) }

// ps is GET /api/ps: the same model, which is loaded.
func (s *API) ps(http.ResponseWriter, *http.Request) (any, error) { return s.listOllama(true) }

func (s *API) listOllama(loaded bool) (any, error) {
	details, err := s.ollamaDetails()
	if err != nil {
		return nil, err
	}
	about, _ := s.About() // without an error above
	entry := map[string]any{"name": s.Name, "model": s.Name, "digest": about.Digest, "details": details}
	if !loaded {
		entry["size"], entry["modified_at"], entry["capabilities"] = about.Bytes, s.Created, s.capabilities()
	} else {
		weights, cache, activations := s.Memory()
		size, onGPU := weights+cache+activations, int64(0)
		if !strings.HasPrefix(s.Device(), "cpu") {
			onGPU = size
		}
		// It stays for as long as the server runs; clients show times far off as never.
		entry["size"], entry["size_vram"], entry["context_length"], entry["expires_at"] = size, onGPU, s.Context(), s.Created.AddDate(200, 0, 0)
	}
	return map[string]any{"models": []any{entry}}, nil
}

// show is POST /api/show: what the model's files say.
func (s *API) show(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Model string `json:"model"`
		Name  string `json:"name"` // what older clients call it
	}
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	if err := (&openai.Sampling{Model: modelName(cmp.Or(q.Model, q.Name))}).Check(s.Service); err != nil {
		return nil, err
	}
	details, err := s.ollamaDetails()
	if err != nil {
		return nil, err
	}
	about, _ := s.About() // without an error above
	info := map[string]any{"general.architecture": about.Architecture, "general.basename": s.Model.Name(), "general.parameter_count": about.Parameters}
	for key, value := range about.Config {
		info[about.Architecture+"."+key] = value
	}
	return map[string]any{"details": details, "capabilities": s.capabilities(), "template": about.Template, "model_info": info,
		"parameters": fmt.Sprintf("num_ctx %d", s.Context()), "modified_at": s.Created}, nil
}
