package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/store"
	"github.com/ridge-llm/ridge/server/stored"
)

// keptConversation is a conversation that responses go on from and add to.
type keptConversation struct {
	Created  int64             `json:"created_at"`
	Metadata map[string]string `json:"metadata"`
	Items    []json.RawMessage `json:"items"` // each with an id
}

// body is the conversation as the API has it.
func (c *keptConversation) body(id string) any {
	metadata := c.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return map[string]any{"id": id, "object": "conversation", "created_at": c.Created, "metadata": metadata}
}

// conversationName is the id of a conversation, or an object with it.
type conversationName string

// UnmarshalJSON implements json.Unmarshaler.
func (n *conversationName) UnmarshalJSON(b []byte) error {
	var object struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(b, (*string)(n)) != nil {
		if json.Unmarshal(b, &object) != nil || object.ID == "" {
			return api.Invalid("conversation", `conversation should be an id, or {"id": …}`)
		}
		*n = conversationName(object.ID)
	}
	return nil
}

// object is the conversation of a response.
func (n conversationName) object() any {
	if n == "" {
		return nil
	}
	return map[string]string{"id": string(n)}
}

// readConversation is a conversation that the client sees.
func readConversation(v store.View, id string) (*keptConversation, error) {
	if !strings.HasPrefix(id, store.ConversationPrefix) {
		return nil, fmt.Errorf("%w: there is no conversation %q", store.ErrNotFound, id)
	}
	content, err := v.ResponseContent(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: there is no conversation %q", store.ErrNotFound, id)
	}
	if err != nil {
		return nil, err
	}
	var c keptConversation
	if err := json.Unmarshal(content, &c); err != nil {
		return nil, fmt.Errorf("the conversation %s was not kept whole: %w", id, err)
	}
	return &c, nil
}

// put keeps a conversation.
func (c *keptConversation) put(v store.View, id string) error {
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(content) > maxKept {
		return api.Invalid("conversation", "the conversation would have %d bytes and %d can be kept; delete items, or begin another", len(content), maxKept)
	}
	return v.PutResponse(id, content)
}

// change changes a conversation, of which there is one change at a time.
func (k *Keeping) change(v store.View, id string, f func(*keptConversation) error) error {
	k.changing.Lock()
	defer k.changing.Unlock()
	c, err := readConversation(v, id)
	if err != nil {
		return err
	}
	if err := f(c); err != nil {
		return err
	}
	return c.put(v, id)
}

// remove takes items out that were added, each once, the latest first.
func (c *keptConversation) remove(added []json.RawMessage) {
	for _, x := range slices.Backward(added) {
		for i, y := range slices.Backward(c.Items) {
			if bytes.Equal(x, y) {
				c.Items = slices.Delete(c.Items, i, i+1)
				break
			}
		}
	}
}

// goOn has a request go on from its conversation.
func (q *responsesRequest) goOn(v store.View) error {
	switch {
	case q.Previous != "":
		return api.Invalid("conversation", "conversation and previous_response_id are both given; a response goes on from one of them")
	case q.Store != nil && !*q.Store:
		return api.Invalid("conversation", "store is false and a conversation is given, to which the answer would be added; leave one of them out")
	}
	c, err := readConversation(v, string(q.Conversation))
	if errors.Is(err, store.ErrNotFound) {
		return api.Invalid("conversation", "there is no conversation %q; it was deleted, or forgotten for newer responses (--response-quota)", q.Conversation)
	}
	if err == nil {
		q.history = c.Items
	}
	return err
}

// conversationRequest is the body of POST /v1/conversations, and of what changes one.
type conversationRequest struct {
	Items    json.RawMessage   `json:"items"`
	Metadata map[string]string `json:"metadata"`
}

// maxItems is how many items can be added to a conversation at once, OpenAI's limit.
const maxItems = 20

// listed are the items of the request, as the API lists them.
func (q *conversationRequest) listed() ([]json.RawMessage, error) {
	if !api.Present(q.Items) {
		return nil, nil
	}
	var all []json.RawMessage
	if json.Unmarshal(q.Items, &all) != nil || len(all) > maxItems {
		return nil, api.Invalid("items", "items should be an array of %d items at most", maxItems)
	}
	input := &responsesRequest{Input: q.Items}
	if err := input.messages(&ChatRequest{}); err != nil && len(all) > 0 {
		return nil, err
	}
	return input.listed(store.NewResponseID())
}

// checkMetadata holds metadata to OpenAI's limits: it is kept, sent back, and in memory as long as an answer waits.
func checkMetadata(all map[string]string) error {
	if len(all) > 16 {
		return api.Invalid("metadata", "metadata has %d entries; 16 are possible", len(all))
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if len(key) > 64 || len(all[key]) > 512 {
			return api.Invalid("metadata", "metadata has the key %.64q with %d and a value with %d bytes; 64 and 512 are possible", key, len(key), len(all[key]))
		}
	}
	return nil
}

// createConversation is POST /v1/conversations.
func (s *Kept) createConversation(w http.ResponseWriter, r *http.Request) (any, error) {
	var q conversationRequest
	if r.ContentLength != 0 {
		if err := s.ReadBody(w, r, &q); err != nil {
			return nil, err
		}
	}
	if err := checkMetadata(q.Metadata); err != nil {
		return nil, err
	}
	items, err := q.listed()
	if err != nil {
		return nil, err
	}
	id, c := store.NewConversationID(), &keptConversation{Created: time.Now().Unix(), Metadata: q.Metadata, Items: items}
	return c.body(id), c.put(stored.View(s.kept.store, r), id)
}

// conversation is GET /v1/conversations/ID.
func (s *Kept) conversation(_ http.ResponseWriter, r *http.Request) (any, error) {
	c, err := readConversation(stored.View(s.kept.store, r), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return c.body(r.PathValue("id")), nil
}

// changeConversation is POST /v1/conversations/ID: other metadata.
func (s *Kept) changeConversation(w http.ResponseWriter, r *http.Request) (body any, err error) {
	var q conversationRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	if err := checkMetadata(q.Metadata); err != nil {
		return nil, err
	}
	err = s.kept.change(stored.View(s.kept.store, r), r.PathValue("id"), func(c *keptConversation) error {
		c.Metadata = q.Metadata
		body = c.body(r.PathValue("id"))
		return nil
	})
	return body, err
}

// removeConversation is DELETE /v1/conversations/ID. Responses that went on from it stay.
func (s *Kept) removeConversation(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, view := r.PathValue("id"), stored.View(s.kept.store, r)
	s.kept.changing.Lock() // or a response would bring it back
	defer s.kept.changing.Unlock()
	if _, err := readConversation(view, id); err != nil {
		return nil, err
	}
	if err := view.DeleteResponse(id); err != nil {
		return nil, err
	}
	return map[string]any{"id": id, "object": "conversation.deleted", "deleted": true}, nil
}

// conversationItems is GET /v1/conversations/ID/items.
func (s *Kept) conversationItems(_ http.ResponseWriter, r *http.Request) (any, error) {
	c, err := readConversation(stored.View(s.kept.store, r), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	slices.Reverse(c.Items)
	return stored.Page(r.URL.Query(), 20, 100, c.Items, itemID)
}

// addItems is POST /v1/conversations/ID/items.
func (s *Kept) addItems(w http.ResponseWriter, r *http.Request) (any, error) {
	var q conversationRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	items, err := q.listed()
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, api.Invalid("items", "items is missing or empty")
	}
	if err := s.kept.change(stored.View(s.kept.store, r), r.PathValue("id"), func(c *keptConversation) error {
		c.Items = append(c.Items, items...)
		return nil
	}); err != nil {
		return nil, err
	}
	return map[string]any{"object": "list", "data": items, "has_more": false, "first_id": itemID(items[0]), "last_id": itemID(items[len(items)-1])}, nil
}

// item is the place of the item that a request's path names.
func (c *keptConversation) item(r *http.Request) (int, error) {
	i := slices.IndexFunc(c.Items, func(x json.RawMessage) bool { return itemID(x) == r.PathValue("item") })
	if i < 0 {
		return i, fmt.Errorf("%w: the conversation has no item %q", store.ErrNotFound, r.PathValue("item"))
	}
	return i, nil
}

// conversationItem is GET /v1/conversations/ID/items/ITEM.
func (s *Kept) conversationItem(_ http.ResponseWriter, r *http.Request) (any, error) {
	c, err := readConversation(stored.View(s.kept.store, r), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	i, err := c.item(r)
	if err != nil {
		return nil, err
	}
	return c.Items[i], nil
}

// removeItem is DELETE /v1/conversations/ID/items/ITEM.
func (s *Kept) removeItem(_ http.ResponseWriter, r *http.Request) (body any, err error) {
	err = s.kept.change(stored.View(s.kept.store, r), r.PathValue("id"), func(c *keptConversation) error {
		i, err := c.item(r)
		if err == nil {
			c.Items = slices.Delete(c.Items, i, i+1)
			body = c.body(r.PathValue("id"))
		}
		return err
	})
	return body, err
}
