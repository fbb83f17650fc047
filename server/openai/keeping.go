package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/store"
)

// Keeping is what a server keeps for the Responses API: responses and conversations, and those responses that are being made in the background. Any
// number of goroutines may use it; those of all models of a server are one.
type Keeping struct {
	store *store.Store // nil: nothing is kept

	mu     sync.Mutex
	making map[string]*making // by the response's id
	closed bool
	busy   sync.WaitGroup

	changing sync.Mutex // held while a conversation is read, changed and kept
}

// making is a response that is being made in the background.
type making struct {
	stop context.CancelCauseFunc
	done chan struct{} // closed when it is kept as it ended
	log  *eventLog     // nil: it is not streamed
}

// NewKeeping keeps in a store; nil: nothing is kept.
func NewKeeping(st *store.Store) *Keeping { return &Keeping{store: st, making: map[string]*making{}} }

// Why a response in the background is stopped.
var (
	errCancelled = errors.New("the response was cancelled")
	errDeleted   = errors.New("the response was deleted")
	errStopped   = errors.New("the server was stopped while the response was made; send the request again")
)

// begin notes a response that is about to be made, until end is called.
func (k *Keeping) begin(id string, stop context.CancelCauseFunc, log *eventLog) (end func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, &api.Error{Status: http.StatusServiceUnavailable, Kind: "server_error", Code: "draining", Message: "the server is about to stop and takes no requests; try again soon"}
	}
	m := &making{stop, make(chan struct{}), log}
	k.making[id] = m
	k.busy.Add(1)
	return func() {
		k.mu.Lock()
		delete(k.making, id)
		k.mu.Unlock()
		close(m.done)
		k.busy.Done()
	}, nil
}

// events is the events of a response that is being made, if it is and they are kept.
func (k *Keeping) events(id string) *eventLog {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.making[id]; m != nil {
		return m.log
	}
	return nil
}

// underWay reports whether a response is being made.
func (k *Keeping) underWay(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.making[id] != nil
}

// stop ends the making of a response for a reason, and waits until it is kept so or ctx is done. One that is not being made stays as it is.
func (k *Keeping) stop(ctx context.Context, id string, why error) {
	k.mu.Lock()
	m := k.making[id]
	k.mu.Unlock()
	if m == nil {
		return
	}
	m.stop(why)
	select {
	case <-m.done:
	case <-ctx.Done():
	}
}

// Close stops the responses that are being made, which are kept as failed.
func (k *Keeping) Close() {
	k.mu.Lock()
	k.closed = true
	for _, m := range k.making {
		m.stop(errStopped)
	}
	k.mu.Unlock()
	k.busy.Wait()
}

// statusOf is the status of a response as it was kept.
func statusOf(response json.RawMessage) string {
	var r struct {
		Status string `json:"status"`
	}
	_ = json.Unmarshal(response, &r) // it was kept by this program
	return r.Status
}

// settled is a response as it is now: one that is not being made any more, and was not kept as ended, has failed with the process that made it.
func (k *Keeping) settled(id string, response json.RawMessage) (json.RawMessage, error) {
	if statusOf(response) != inProgress || k.underWay(id) {
		return response, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(response, &fields); err != nil {
		return nil, err
	}
	failure, err := json.Marshal(responseError(errStopped))
	if err != nil {
		return nil, err
	}
	fields["status"], fields["error"] = json.RawMessage(`"failed"`), failure
	return json.Marshal(fields)
}

// responseError is an error as responses have it.
func responseError(err error) map[string]string {
	return map[string]string{"code": "server_error", "message": err.Error()}
}
