package openai

import (
	"net/http"
	"time"

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
func (s *API) models(_ http.ResponseWriter, r *http.Request) (any, error) {
	list := []map[string]any{s.entry()}
	for _, a := range s.Adapters() {
		list = append(list, s.adapterEntry(a))
	}
	return ModelList(r, list), nil
}

// ModelList is a list of models, as entries have them. Anthropic's clients, which say so in a header, get what theirs has beside it.
func ModelList(r *http.Request, entries []map[string]any) any {
	l := map[string]any{"object": "list", "data": entries}
	if r.Header.Get(anthropicVersion) == "" {
		return l
	}
	for _, e := range entries {
		ModelEntry(r, e)
	}
	l["has_more"], l["first_id"], l["last_id"] = false, nil, nil
	if n := len(entries); n > 0 {
		l["first_id"], l["last_id"] = entries[0]["id"], entries[n-1]["id"]
	}
	return l
}

// anthropicVersion is the header that all clients of Anthropic's API send.
const anthropicVersion = "anthropic-version"

// ModelEntry gives an entry of a list what Anthropic's have, for a client of theirs.
func ModelEntry(r *http.Request, e map[string]any) any {
	if r.Header.Get(anthropicVersion) != "" {
		created, _ := e["created"].(int64)
		e["type"], e["display_name"], e["created_at"] = "model", e["id"], time.Unix(created, 0).UTC().Format(time.RFC3339)
	}
	return e
}

// oneModel is GET /v1/models/NAME.
func (s *API) oneModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	name := r.PathValue("name")
	for _, a := range s.Adapters() {
		if a.Name == name {
			return ModelEntry(r, s.adapterEntry(a)), nil
		}
	}
	return ModelEntry(r, s.entry()), (&Sampling{Model: name}).Check(s.Service)
}
