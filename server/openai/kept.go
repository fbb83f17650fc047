package openai

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/store"
	"github.com/ridge-llm/ridge/server/stored"
)

// Kept is the endpoints of responses that have been kept, of whatever model.
type Kept struct {
	*api.Responder
	store *store.Store // nil: there are none
}

// NewKept makes the endpoints of a store's responses.
func NewKept(r *api.Responder, st *store.Store) *Kept { return &Kept{r, st} }

// Routes are the endpoints by their patterns.
func (s *Kept) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /v1/responses/{id}":             stored.Handle(s.Responder, s.store, s.response),
		"GET /v1/responses/{id}/input_items": stored.Handle(s.Responder, s.store, s.inputItems),
		"DELETE /v1/responses/{id}":          stored.Handle(s.Responder, s.store, s.remove),
	}
}

// response is GET /v1/responses/ID.
func (s *Kept) response(_ http.ResponseWriter, r *http.Request) (any, error) {
	if stream := r.URL.Query().Get("stream"); stream != "" && stream != "false" {
		return nil, api.Invalid("stream", "stream is %q; a kept response is answered in one piece", stream)
	}
	k, err := readKept(stored.View(s.store, r), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return k.Response, nil
}

// inputItems is GET /v1/responses/ID/input_items: the conversation before the answer, that of previous_response_id too.
func (s *Kept) inputItems(_ http.ResponseWriter, r *http.Request) (any, error) {
	k, err := readKept(stored.View(s.store, r), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	slices.Reverse(k.Input)
	return stored.Page(r.URL.Query(), 20, 100, k.Input, func(raw json.RawMessage) string {
		var item struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(raw, &item) // what is kept has been read as items before
		return item.ID
	})
}

// remove is DELETE /v1/responses/ID. Responses that went on from it stay: each has its whole conversation.
func (s *Kept) remove(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	if err := stored.View(s.store, r).DeleteResponse(id); err != nil {
		return nil, err
	}
	return map[string]any{"id": id, "object": "response", "deleted": true}, nil
}
