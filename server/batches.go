package server

import (
	"net/http"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/server/store"
)

// batchRequest is the body of POST /v1/batches.
type batchRequest struct {
	Input    string            `json:"input_file_id"`
	Endpoint string            `json:"endpoint"`
	Window   string            `json:"completion_window"`
	Metadata map[string]string `json:"metadata"`
}

func (q *batchRequest) refuses() map[string]refusal {
	return map[string]refusal{"output_expires_after": {"", "output files stay until they are deleted"}}
}

// batchEndpoints are what the lines of a batch can ask for.
var batchEndpoints = []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/rerank", "/v1/score"}

const longestWindow = 7 * 24 * time.Hour

// createBatch is POST /v1/batches. The input is read, and refused if need be, by the runner.
func (s *Server) createBatch(w http.ResponseWriter, r *http.Request) (any, error) {
	var q batchRequest
	if err := decode(w, r, &q); err != nil {
		return nil, err
	}
	f, err := s.options.Store.File(q.Input)
	window, werr := time.ParseDuration(q.Window)
	switch {
	case err != nil:
		return nil, bad("input_file_id", "there is no file %q; upload it to /v1/files first", q.Input)
	case f.Purpose != "batch":
		return nil, bad("input_file_id", "the file %q has the purpose %q; it must be batch", q.Input, f.Purpose)
	case !slices.Contains(batchEndpoints, q.Endpoint):
		return nil, bad("endpoint", "endpoint is %q; possible are %q", q.Endpoint, batchEndpoints)
	case werr != nil || window < time.Second || window > longestWindow:
		return nil, bad("completion_window", "completion_window is %q; 24h is usual, 1s to %v is possible", q.Window, longestWindow)
	case len(q.Metadata) > 16:
		return nil, bad("metadata", "metadata has %d entries; 16 are possible", len(q.Metadata))
	}
	now := time.Now()
	b, err := s.options.Store.NewBatch(store.Batch{
		Input: q.Input, Endpoint: q.Endpoint, Window: q.Window, Metadata: q.Metadata,
		Status: store.Validating, Created: now.Unix(), Expires: now.Add(window).Unix(),
	})
	if err != nil {
		return nil, err
	}
	s.batches.wake()
	return b, nil
}

// listBatches is GET /v1/batches.
func (s *Server) listBatches(_ http.ResponseWriter, r *http.Request) (any, error) {
	return listPage(r.URL.Query(), 100, s.options.Store.Batches(), func(b store.Batch) string { return b.ID })
}

// batch is GET /v1/batches/ID.
func (s *Server) batch(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.options.Store.Batch(r.PathValue("id"))
}

// cancelBatch is POST /v1/batches/ID/cancel. What is under way of it is given up; what is finished stays.
func (s *Server) cancelBatch(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.batches.cancel(r.PathValue("id"))
}
