package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
	"github.com/ridge-llm/ridge/server/store"
	"github.com/ridge-llm/ridge/server/stored"
)

// keptResponse is what is kept of a response: all that the next request of the conversation needs, so that it needs none of those before.
type keptResponse struct {
	Response   json.RawMessage   `json:"response"`             // as it was answered
	Input      []json.RawMessage `json:"input"`                // the items of the conversation before the answer, each with an id
	Background bool              `json:"background,omitempty"` // it was made, or is being made, in the background
	Events     []event           `json:"events,omitempty"`     // of one in the background that was streamed, when it has ended
}

// maxKept is the most bytes that are kept of a response; they are no more than a request that sends the conversation itself may have.
const maxKept = api.MaxBody

// items are the conversation with the answer.
func (k *keptResponse) items() ([]json.RawMessage, error) {
	var answer struct {
		Output []json.RawMessage `json:"output"`
	}
	err := json.Unmarshal(k.Response, &answer)
	return append(k.Input, answer.Output...), err
}

// readKept is what was kept of a response that the client sees.
func readKept(v store.View, id string) (*keptResponse, error) {
	if !strings.HasPrefix(id, responsePrefix) {
		return nil, fmt.Errorf("%w: there is no response %q", store.ErrNotFound, id)
	}
	content, err := v.ResponseContent(id)
	if err != nil {
		return nil, err
	}
	var k keptResponse
	if err := json.Unmarshal(content, &k); err != nil {
		return nil, fmt.Errorf("the response %s was not kept whole: %w", id, err)
	}
	return &k, nil
}

// keeper keeps one answer.
type keeper struct {
	id   string // of the response
	view store.View
	kept *Keeping
}

// keeping reads the conversation that a request goes on from, and is what keeps the answer: nil where it should not be kept. An answer is kept unless
// store is false; of a line of a batch, which has a file of its own, only where store is true.
func (s *API) keeping(r *http.Request, q *responsesRequest) (*keeper, error) {
	if s.kept.store == nil {
		const why = "nothing is kept between requests on this server; send the whole conversation as input, or start the server with --data-dir DIR"
		switch {
		case q.Store != nil && *q.Store:
			return nil, api.Invalid("store", "store is true and %s", why)
		case q.Previous != "":
			return nil, api.Invalid("previous_response_id", "previous_response_id is %q and %s", q.Previous, why)
		case q.Conversation != "":
			return nil, api.Invalid("conversation", "conversation is %q and %s", q.Conversation, why)
		}
		return nil, nil
	}
	view := stored.View(s.kept.store, r)
	if q.Conversation != "" {
		if err := q.goOn(view); err != nil {
			return nil, err
		}
	}
	if q.Previous != "" {
		k, err := readKept(view, q.Previous)
		if errors.Is(err, store.ErrNotFound) {
			e := api.Invalid("previous_response_id", "there is no response %q; it was sent with store: false, deleted, or forgotten for newer ones (--response-quota)", q.Previous)
			e.Code = "previous_response_not_found"
			return nil, e
		}
		if err != nil {
			return nil, err
		}
		if response, err := s.kept.settled(q.Previous, k.Response); err != nil || statusOf(response) == inProgress {
			return nil, errors.Join(err, api.Invalid("previous_response_id", "the response %q is still being made; GET it until its status is completed", q.Previous))
		}
		if q.history, err = k.items(); err != nil {
			return nil, fmt.Errorf("the response %s was not kept whole: %w", q.Previous, err)
		}
	}
	if q.Store == nil && serving.InBackground(r.Context()) || q.Store != nil && !*q.Store {
		return nil, nil
	}
	return &keeper{store.NewResponseID(), view, s.kept}, nil
}

// tentative is a http.ResponseWriter of an answer that may never be sent, as those of a cascade's first models.
type tentative interface {
	OnDrop(func()) // f is called if the answer is dropped
}

// final is the whole answer. It is kept before it is sent; where that fails, as on a full disk, the client has the answer all the same, with
// store: false.
func (a *responsesAnswer) final(w http.ResponseWriter) map[string]any {
	body := a.response(a.status())
	if a.keeper == nil {
		return body
	}
	if err := a.keep(body); err != nil {
		a.responder.Log.Error("a response could not be kept", "id", a.keeper.id, "error", err)
		body["store"] = false
		return body
	}
	if t, ok := w.(tentative); ok {
		id, view := a.keeper.id, a.keeper.view
		t.OnDrop(func() {
			if err := view.DeleteResponse(id); err != nil {
				a.responder.Log.Error("a response that was not sent is still kept", "id", id, "error", err)
			}
		})
	}
	return body
}

// keep stores the answer with the conversation before it, and the events that it was streamed by, if those are kept.
func (a *responsesAnswer) keep(body map[string]any, events ...event) (err error) {
	k := keptResponse{Input: slices.Clone(a.asked.history), Background: a.asked.Background, Events: events}
	if k.Response, err = json.Marshal(body); err != nil {
		return err
	}
	own, err := a.asked.listed(a.keeper.id)
	if err != nil {
		return err
	}
	k.Input = append(k.Input, own...)
	content, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if len(content) > maxKept && k.Events != nil { // the answer is worth more
		k.Events = nil
		if content, err = json.Marshal(k); err != nil {
			return err
		}
	}
	if len(content) > maxKept {
		return fmt.Errorf("the conversation has %d bytes and %d can be kept", len(content), maxKept)
	}
	if a.asked.Conversation == "" || body["status"] != "completed" && body["status"] != "incomplete" {
		return a.keeper.view.PutResponse(a.keeper.id, content)
	}
	whole, err := k.items()
	if err != nil {
		return err
	}
	added := whole[len(a.asked.history):]
	change := func(f func(*keptConversation)) error {
		return a.keeper.kept.change(a.keeper.view, string(a.asked.Conversation), func(c *keptConversation) error {
			f(c)
			return nil
		})
	}
	// First: whoever sees the response looks for it there.
	if err := change(func(c *keptConversation) { c.Items = append(c.Items, added...) }); err != nil {
		return err
	}
	if err := a.keeper.view.PutResponse(a.keeper.id, content); err != nil { // the client is told that nothing is kept, and may ask again
		return errors.Join(err, change(func(c *keptConversation) { c.remove(added) }))
	}
	return nil
}

// listed are the input's items as the API lists them: a message says that it is one and has parts, and each item has an id.
func (q *responsesRequest) listed(id string) (all []json.RawMessage, err error) {
	var text string
	var items []map[string]json.RawMessage
	if json.Unmarshal(q.Input, &text) == nil {
		items = []map[string]json.RawMessage{{"role": api.Quoted("user"), "content": q.Input}}
	} else if err := json.Unmarshal(q.Input, &items); err != nil {
		return nil, err
	}
	for i, x := range items {
		if x == nil { // the item is null
			x = map[string]json.RawMessage{}
		}
		if !api.Present(x["type"]) {
			x["type"] = api.Quoted("message")
		}
		if !api.Present(x["id"]) {
			x["id"] = api.Quoted(fmt.Sprintf("item_%s_%d", id[len(responsePrefix):], i))
		}
		if content := x["content"]; json.Unmarshal(content, &text) == nil && api.Present(content) {
			kind := "input_text"
			if string(x["role"]) == `"assistant"` {
				kind = "output_text"
			}
			x["content"] = fmt.Appendf(nil, `[{"type": "%s", "text": %s}]`, kind, content)
		}
		raw, err := json.Marshal(x)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return all, nil
}
