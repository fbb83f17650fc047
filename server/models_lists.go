package server

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/ollama"
	"github.com/ridge-llm/ridge/server/openai"
)

// listModels is GET /v1/models: all models, with status as llama.cpp's server has it.
func (s *Models) listModels(_ http.ResponseWriter, r *http.Request) (any, error) {
	files, err := s.list()
	if err != nil {
		return nil, err
	}
	loaded := s.residents.loaded()
	list := []map[string]any{}
	for _, f := range files {
		list = append(list, entryOf(f, loaded))
		for _, x := range loaded {
			if x.file.Name != f.Name {
				continue
			}
			for _, a := range x.Adapters() {
				if f.Adapter != "" { // a part of the model
					continue
				}
				list = append(list, map[string]any{"id": a.Name, "object": "model", "created": x.Created.Unix(), "owned_by": "ridge", "root": a.Path, "parent": f.Name})
			}
		}
	}
	return openai.ModelList(r, list), nil
}

// entryOf is what lists say of a model.
func entryOf(f ModelFile, loaded []placed) map[string]any {
	e := map[string]any{"id": f.Name, "object": "model", "created": max(f.Modified.Unix(), 0), "owned_by": "ridge", "status": map[string]string{"value": "unloaded"}}
	if len(f.Aliases) > 0 {
		e["aliases"] = f.Aliases
	}
	for _, x := range loaded {
		if x.file.Name == f.Name {
			e["status"], e["max_model_len"] = map[string]string{"value": "loaded"}, x.Context()
		}
	}
	return e
}

// oneModel is GET /v1/models/NAME.
func (s *Models) oneModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	f, err := s.find(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return openai.ModelEntry(r, entryOf(f, s.residents.loaded())), nil
}

// tags is GET /api/tags: all models, under the names that users gave them too. What the files of one say is known once it was loaded or shown.
func (s *Models) tags(http.ResponseWriter, *http.Request) (any, error) {
	files, err := s.list()
	if err != nil {
		return nil, err
	}
	list := []any{}
	for _, f := range files {
		entry := map[string]any{"size": f.Bytes, "modified_at": f.Modified, "digest": f.digest()}
		if a, ok := s.known(f); ok {
			entry["details"], entry["capabilities"] = ollama.Details(a), ollama.Capabilities(a)
		} else {
			format := "safetensors"
			if strings.EqualFold(filepath.Ext(f.Path), ".gguf") {
				format = "gguf"
			}
			entry["details"] = ollama.Details(ridge.About{Format: format})
		}
		for _, name := range append([]string{f.Name}, f.Named...) { // a copy is a model of its own to Ollama's clients
			named := maps.Clone(entry)
			named["name"], named["model"] = name, name
			list = append(list, named)
		}
	}
	return map[string]any{"models": list}, nil
}

// digest tells a model's files from others, and from what they were before they changed, in the form of a SHA-256. Ollama's program shows its first twelve digits, and ends where a list has fewer; so it is
// made of what is known without reading the files.
func (f *ModelFile) digest() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %d %d", f.Path, f.Bytes, f.Modified.UnixNano())))
}

// known is what is known already of a model's files.
func (s *Models) known(f ModelFile) (ridge.About, bool) {
	s.mu.Lock()
	d, ok := s.about[f.Name]
	s.mu.Unlock()
	if ok && d.modified.Equal(f.Modified) {
		return d.about, true
	}
	for _, x := range s.residents.loaded() {
		if x.file.Name == f.Name {
			if a, err := x.About(); err == nil {
				return a, true
			}
		}
	}
	return ridge.About{}, false
}

// describe reads what a model's files say.
func (s *Models) describe(f ModelFile) (ridge.About, error) {
	if a, ok := s.known(f); ok {
		return a, nil
	}
	a, err := ridge.Describe(f.Path)
	if err != nil {
		return a, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about[f.Name] = described{f.Modified, a}
	return a, nil
}

// show is POST /api/show: what the model's files say. It does not load the model.
func (s *Models) show(w http.ResponseWriter, r *http.Request, f ModelFile) {
	s.Handle(func(http.ResponseWriter, *http.Request) (any, error) {
		a, err := s.describe(f)
		if err != nil {
			return nil, loadError(r, f, err)
		}
		context := a.Trained
		for _, x := range s.residents.loaded() {
			if x.file.Name == f.Name {
				context = x.Context()
			}
		}
		shown := ollama.Shown(f.Name, a, context, f.Modified)
		if f.Preset != nil {
			ollama.ShowPreset(shown, f.Preset, f.Of, f.License)
		}
		return shown, nil
	})(w, r)
}

// ps is GET /api/ps: the models that are loaded, with the memory that they take and until when they stay.
func (s *Models) ps(http.ResponseWriter, *http.Request) (any, error) {
	list := []any{}
	for _, x := range s.residents.loaded() {
		a, err := x.About()
		if err != nil {
			return nil, &api.Error{Status: http.StatusInternalServerError, Kind: "server_error", Message: err.Error()}
		}
		all, onGPU := x.Occupies()
		expires := x.expires
		if expires.IsZero() {
			expires = time.Now().AddDate(200, 0, 0) // clients show times far off as never
		}
		list = append(list, map[string]any{"name": x.file.Name, "model": x.file.Name, "digest": x.file.digest(), "details": ollama.Details(a),
			"size": all, "size_vram": onGPU, "context_length": x.Context(), "expires_at": expires})
	}
	return map[string]any{"models": list}, nil
}
