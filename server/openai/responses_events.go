package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/stored"
)

// event is an event of a response: the number of each is its place.
type event struct {
	Name string          `json:"name"`
	Body json.RawMessage `json:"body"`
}

// eventLog has the events of a response that is made in the background and streamed: any number of clients follow it, each from where it likes, and one that leaves
// ends nothing.
type eventLog struct {
	mu    sync.Mutex
	all   []event
	over  bool
	grown chan struct{} // closed when there is more, or nothing more comes
}

func newEventLog() *eventLog { return &eventLog{grown: make(chan struct{})} }

// add adds an event; over says that it is the last.
func (l *eventLog) add(e event, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all, l.over = append(l.all, e), over
	close(l.grown)
	l.grown = make(chan struct{})
}

// from is the events from a number on, whether those are the last, and else what is closed when there are more.
func (l *eventLog) from(n int) (part []event, over bool, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[min(n, len(l.all)):], l.over, l.grown
}

// follow sends the events from a number on, until the last or until the client has gone.
func (l *eventLog) follow(ctx context.Context, out *api.Stream, n int) error {
	for {
		part, over, grown := l.from(n)
		if err := sendEvents(out, part); err != nil || over {
			return err
		}
		n += len(part)
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func sendEvents(out *api.Stream, all []event) error {
	for _, e := range all {
		if err := out.SendNamed(e.Name, e.Body); err != nil {
			return err
		}
	}
	return nil
}

// streamKept is GET /v1/responses/ID?stream=true: the events behind starting_after of a response that was asked for with background and stream, those that have come and those
// that come.
func (s *Kept) streamKept(w http.ResponseWriter, r *http.Request) (any, error) {
	id, from := r.PathValue("id"), 0
	if text := r.URL.Query().Get("starting_after"); text != "" {
		n, err := strconv.ParseUint(text, 10, 30)
		if err != nil {
			return nil, api.Invalid("starting_after", "starting_after is %q; the sequence_number of an event is possible", text)
		}
		from = int(n) + 1
	}
	log := s.kept.events(id) // before what is kept is read: it may end meanwhile
	k, err := readKept(stored.View(s.kept.store, r), id)
	if err != nil {
		return nil, err
	}
	if log == nil && len(k.Events) == 0 {
		return nil, api.Invalid("stream", "the response %s was not asked for with both background and stream; GET it in one piece", id)
	}
	if log == nil {
		log = &eventLog{all: k.Events, over: true}
	}
	// The client has gone, or has what it asked for.
	_ = log.follow(r.Context(), api.NewStream(w), from)
	return nil, nil
}

// wantsStream reports whether the query of a GET asks for events.
func wantsStream(q url.Values) (bool, error) {
	text := q.Get("stream")
	if text == "" {
		return false, nil
	}
	stream, err := strconv.ParseBool(text)
	if err != nil {
		return false, api.Invalid("stream", "stream is %q; true and false are possible", text)
	}
	return stream, nil
}
