package ollama

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
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

// Details is what lists say of a model, of what its files say.
func Details(a ridge.About) any {
	if a.Architecture == "" { // of files that have not been read
		return details{Format: a.Format}
	}
	return details{Format: a.Format, Family: a.Architecture, Families: []string{a.Architecture}, Parameters: roughly(a.Parameters), Quantization: a.Type}
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

// Capabilities are what a model can do, by Ollama's names.
func Capabilities(a ridge.About) []string {
	if a.Encoder { // also of rerankers, for which Ollama has no word
		return []string{"embedding"}
	}
	all := []string{"completion"}
	if a.Tools {
		all = append(all, "tools")
	}
	if reasons(chat.DetectStyle(a.Template)) {
		all = append(all, "thinking")
	}
	return all
}

// Shown is the answer of /api/show: what the files of a model say, and for how many tokens of context it is served.
func Shown(file string, a ridge.About, context int, modified time.Time) map[string]any {
	info := map[string]any{"general.architecture": a.Architecture, "general.basename": file, "general.parameter_count": a.Parameters}
	for key, value := range a.Config {
		info[a.Architecture+"."+key] = value
	}
	return map[string]any{"details": Details(a), "capabilities": Capabilities(a), "template": a.Template, "model_info": info,
		"parameters": fmt.Sprintf("num_ctx %d", context), "modified_at": modified}
}

// ShowPreset adds what a model was created with, of which model, to what /api/show says.
func ShowPreset(shown map[string]any, p *serving.Preset, of string, license []string) {
	if p.Template != "" {
		shown["template"] = p.Template
	}
	if lines := p.ParameterLines(); lines != "" {
		shown["parameters"] = lines
	}
	shown["system"], shown["modelfile"], shown["license"] = p.System, p.Modelfile(of), strings.Join(license, "\n")
	messages := []message{}
	for _, m := range p.Messages {
		messages = append(messages, message{Role: m.Role, Content: m.Content})
	}
	shown["messages"] = messages
}

// tags is GET /api/tags: the one model there is.
func (s *API) tags(http.ResponseWriter, *http.Request) (any, error) { return s.listOllama(false) }

// ps is GET /api/ps: the same model, which is loaded.
func (s *API) ps(http.ResponseWriter, *http.Request) (any, error) { return s.listOllama(true) }

func (s *API) listOllama(loaded bool) (any, error) {
	about, err := s.About()
	if err != nil {
		return nil, err
	}
	entry := map[string]any{"name": s.Name, "model": s.Name, "digest": about.Digest, "details": Details(about)}
	if !loaded {
		entry["size"], entry["modified_at"], entry["capabilities"] = about.Bytes, s.Created, Capabilities(about)
	} else {
		size, onGPU := s.Occupies()
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
	about, err := s.About()
	if err != nil {
		return nil, err
	}
	return Shown(s.Model.Name(), about, s.Context(), s.Created), nil
}
