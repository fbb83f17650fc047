package openai

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/stored"
)

// Kept is the endpoints of responses that have been kept, of whatever model.
type Kept struct {
	*api.Responder
	kept *Keeping
}

// NewKept makes the endpoints of what is kept.
func NewKept(r *api.Responder, k *Keeping) *Kept { return &Kept{r, k} }

// Routes are the endpoints by their patterns.
func (s *Kept) Routes() map[string]http.HandlerFunc {
	handle := func(e api.Endpoint) http.HandlerFunc { return stored.Handle(s.Responder, s.kept.store, e) }
	return map[string]http.HandlerFunc{
		"GET /v1/responses/{id}":             handle(s.response),
		"GET /v1/responses/{id}/input_items": handle(s.inputItems),
		"POST /v1/responses/{id}/cancel":     handle(s.cancel),
		"DELETE /v1/responses/{id}":          handle(s.remove),

		"POST /v1/conversations":                     handle(s.createConversation),
		"GET /v1/conversations/{id}":                 handle(s.conversation),
		"POST /v1/conversations/{id}":                handle(s.changeConversation),
		"DELETE /v1/conversations/{id}":              handle(s.removeConversation),
		"GET /v1/conversations/{id}/items":           handle(s.conversationItems),
		"POST /v1/conversations/{id}/items":          handle(s.addItems),
		"GET /v1/conversations/{id}/items/{item}":    handle(s.conversationItem),
		"DELETE /v1/conversations/{id}/items/{item}": handle(s.removeItem),
	}
}

// response is GET /v1/responses/ID.
func (s *Kept) response(w http.ResponseWriter, r *http.Request) (any, error) {
	if stream, err := wantsStream(r.URL.Query()); err != nil {
		return nil, err
	} else if stream {
		return s.streamKept(w, r)
	}
	k, err := readKept(stored.View(s.kept.store, r), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return s.kept.settled(r.PathValue("id"), k.Response)
}

// inputItems is GET /v1/responses/ID/input_items: the conversation before the answer, that of previous_response_id too.
func (s *Kept) inputItems(_ http.ResponseWriter, r *http.Request) (any, error) {
	k, err := readKept(stored.View(s.kept.store, r), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	slices.Reverse(k.Input)
	return stored.Page(r.URL.Query(), 20, 100, k.Input, itemID)
}

// itemID is the id of an item.
func itemID(raw json.RawMessage) string {
	var item struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &item) // what is kept has been read as items before
	return item.ID
}

// remove is DELETE /v1/responses/ID. Responses that went on from it stay: each has its whole conversation.
func (s *Kept) remove(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	view := stored.View(s.kept.store, r)
	if _, err := readKept(view, id); err != nil { // a conversation is none
		return nil, err
	}
	s.kept.stop(r.Context(), id, errDeleted)
	if err := view.DeleteResponse(id); err != nil {
		return nil, err
	}
	return map[string]any{"id": id, "object": "response", "deleted": true}, nil
}
