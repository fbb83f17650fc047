// Package batch is OpenAI's API of files and batches, Anthropic's of batches of messages, and the runner of both.
package batch

import (
	"net/http"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/store"
	"github.com/ridge-llm/ridge/server/stored"
)

// API is the endpoints of files and batches, and the work on batches.
type API struct {
	*api.Responder
	load    Load
	store   *store.Store // nil: there are none
	keys    *access.Ring
	handler http.Handler // answers the lines
	runner  *runner      // nil without a store
}

// Load is what the runner of batches asks of those who answer the lines: whether it may send one.
type Load interface {
	Parallel() int // requests that are answered at once
	Waiting() int  // requests that wait
}

// New makes the endpoints. handler answers the lines of batches, for the clients that keys knows as their owners.
func New(l Load, r *api.Responder, st *store.Store, keys *access.Ring, handler http.Handler) *API {
	return &API{load: l, Responder: r, store: st, keys: keys, handler: handler}
}

// Start begins the work on batches, those in the store first. handler must be able to answer.
func (s *API) Start() {
	if s.store != nil {
		s.runner = s.startBatches()
	}
}

// Routes are the endpoints of OpenAI's API by their patterns, and MessagesRoutes those of Anthropic's.
func (s *API) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /v1/files":               s.withStore(s.upload),
		"GET /v1/files":                s.withStore(s.files),
		"GET /v1/files/{id}":           s.withStore(s.file),
		"GET /v1/files/{id}/content":   s.withStore(s.fileContent),
		"DELETE /v1/files/{id}":        s.withStore(s.deleteFile),
		"POST /v1/batches":             s.withStore(s.createBatch),
		"GET /v1/batches":              s.withStore(s.listBatches),
		"GET /v1/batches/{id}":         s.withStore(s.batch),
		"POST /v1/batches/{id}/cancel": s.withStore(s.cancelBatch),
	}
}

// Close stops the work on batches; it is resumed by the next API with the same store.
func (s *API) Close() {
	if s.runner != nil {
		s.runner.close()
	}
}

func (s *API) withStore(e api.Endpoint) http.HandlerFunc {
	return stored.Handle(s.Responder, s.store, e)
}

// request is the body of POST /v1/batches.
type request struct {
	Input    string            `json:"input_file_id"`
	Endpoint string            `json:"endpoint"`
	Window   string            `json:"completion_window"`
	Metadata map[string]string `json:"metadata"`
}

// Refuses lists the fields that are not supported.
func (q *request) Refuses() map[string]api.Refusal {
	return map[string]api.Refusal{"output_expires_after": {Harmless: "", Why: "output files stay until they are deleted"}}
}

// batchEndpoints are what the lines of a batch can ask for.
var batchEndpoints = []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/rerank", "/v1/score"}

const longestWindow = 7 * 24 * time.Hour

// createBatch is POST /v1/batches. The input is read, and refused if need be, by the runner.
func (s *API) createBatch(w http.ResponseWriter, r *http.Request) (any, error) {
	var q request
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	st := stored.View(s.store, r)
	f, err := st.File(q.Input)
	window, werr := time.ParseDuration(q.Window)
	switch {
	case err != nil:
		return nil, api.Invalid("input_file_id", "there is no file %q; upload it to /v1/files first", q.Input)
	case f.Purpose != "batch":
		return nil, api.Invalid("input_file_id", "the file %q has the purpose %q; it must be batch", q.Input, f.Purpose)
	case !slices.Contains(batchEndpoints, q.Endpoint):
		return nil, api.Invalid("endpoint", "endpoint is %q; possible are %q", q.Endpoint, batchEndpoints)
	case werr != nil || window < time.Second || window > longestWindow:
		return nil, api.Invalid("completion_window", "completion_window is %q; 24h is usual, 1s to %v is possible", q.Window, longestWindow)
	}
	if err := checkMetadata(q.Metadata); err != nil {
		return nil, err
	}
	now := time.Now()
	b, err := st.NewBatch(store.Batch{
		Owner: st.Owner(), Input: q.Input, Endpoint: q.Endpoint, Window: q.Window, Metadata: q.Metadata,
		Status: store.Validating, Created: now.Unix(), Expires: now.Add(window).Unix(),
	})
	if err != nil {
		return nil, err
	}
	s.runner.wake()
	return b, nil
}

// checkMetadata holds metadata to OpenAI's limits: it is kept, and listed with every batch.
func checkMetadata(m map[string]string) error {
	if len(m) > 16 {
		return api.Invalid("metadata", "metadata has %d entries; 16 are possible", len(m))
	}
	for key, value := range m {
		if len(key) > 64 || len(value) > 512 {
			return api.Invalid("metadata", "metadata has the key %.64q with %d and a value with %d bytes; 64 and 512 are possible", key, len(key), len(value))
		}
	}
	return nil
}

// listBatches is GET /v1/batches.
func (s *API) listBatches(_ http.ResponseWriter, r *http.Request) (any, error) {
	return stored.Page(r.URL.Query(), 100, 100, stored.View(s.store, r).Batches(), func(b store.Batch) string { return b.ID })
}

// batch is GET /v1/batches/ID.
func (s *API) batch(_ http.ResponseWriter, r *http.Request) (any, error) {
	return stored.View(s.store, r).Batch(r.PathValue("id"))
}

// cancelBatch is POST /v1/batches/ID/cancel. Lines in progress are cancelled; finished ones stay.
func (s *API) cancelBatch(_ http.ResponseWriter, r *http.Request) (any, error) {
	b, err := stored.View(s.store, r).Batch(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return s.runner.cancel(b.ID)
}
