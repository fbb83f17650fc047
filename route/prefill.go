package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/route/upstream"
)

// prefillers are servers that compute prompts, which the replicas then go on from: prefill apart from decode.
type prefillers struct {
	all   []*prefiller
	least int // tokens of a prompt from which on it is computed there
}

type prefiller struct {
	url    string
	pool   *upstream.Pool
	active atomic.Int64
	failed atomic.Int64 // when it last did, ns; 0: it did not
	asked  atomic.Int64
}

const (
	prefillTime = time.Minute     // of one that does not answer; the replica computes the prompt then
	prefillRest = 5 * time.Second // in which one that failed is not asked
	prefillBody = 1 << 20         // bytes of an answer
)

func newPrefillers(urls []string, least int) (*prefillers, error) {
	p := &prefillers{least: least}
	for _, url := range urls {
		pool, err := upstream.New(url)
		if err != nil {
			return nil, fmt.Errorf("route: a server for prefill: %w", err)
		}
		p.all = append(p.all, &prefiller{url: url, pool: pool})
	}
	return p, nil
}

// pick is the server with the fewest prompts of those that have not failed of late; nil: there is none.
func (p *prefillers) pick(now time.Time) (best *prefiller) {
	for _, x := range p.all {
		if now.UnixNano()-x.failed.Load() < int64(prefillRest) {
			continue
		}
		if best == nil || x.active.Load() < best.active.Load() {
			best = x
		}
	}
	return best
}

func (p *prefillers) close() {
	for _, x := range p.all {
		x.pool.Close()
	}
}

// prefilled has a request's prompt computed by a server for that, and returns the body with which a replica goes on from it: the same, where there is none, the prompt is short or
// it fails.
func (rt *Router) prefilled(r *http.Request, c *call, body []byte, tokens int) []byte {
	if len(rt.prefill.all) == 0 || tokens < rt.prefill.least || r.URL.Path != "/v1/completions" && r.URL.Path != "/v1/chat/completions" {
		return body
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields["kv_transfer_params"] != nil {
		return body // the replica says what is wrong with it, or the client has its own pair
	}
	x := rt.prefill.pick(rt.options.Now())
	if x == nil {
		return body
	}
	x.active.Add(1)
	defer x.active.Add(-1)
	x.asked.Add(1)
	params, err := rt.prefillAt(r, c, x, fields)
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		return body // the replica says what is wrong with it; other requests are computed there as before
	}
	if err != nil {
		if r.Context().Err() == nil {
			x.failed.Store(rt.options.Now().UnixNano())
			rt.log.Warn("a server for prefill did not compute a prompt; the replica does", "server", x.url, "error", err)
		}
		return body
	}
	fields["kv_transfer_params"] = params
	with, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return with
}

// refusedError is that of a server which refuses a request: the fault is the request's, or its key's.
type refusedError struct{ code int }

func (e *refusedError) Error() string { return fmt.Sprintf("it answers %d", e.code) }

// prefillAt has a server compute a prompt, and returns what the replica is to be told of it.
func (rt *Router) prefillAt(r *http.Request, c *call, x *prefiller, fields map[string]json.RawMessage) (json.RawMessage, error) {
	ask := map[string]json.RawMessage{}
	for name, value := range fields {
		switch name {
		case "stream_options", "min_tokens", "best_of", "n", "store":
		case "max_completion_tokens":
			ask[name] = json.RawMessage("1")
		default:
			ask[name] = value
		}
	}
	ask["max_tokens"], ask["stream"] = json.RawMessage("1"), json.RawMessage("false")
	if ask["max_completion_tokens"] != nil {
		delete(ask, "max_tokens")
	}
	ask["kv_transfer_params"] = json.RawMessage(`{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`)
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), prefillTime)
	defer cancel()
	answer, err := x.pool.Do(ctx, rt.request(r, c, body))
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	text, err := io.ReadAll(io.LimitReader(answer, prefillBody))
	if err != nil {
		return nil, err
	}
	if code := answer.StatusCode; code >= 400 && code < 500 && code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
		return nil, &refusedError{code}
	}
	var said struct {
		Params json.RawMessage `json:"kv_transfer_params"`
	}
	if answer.StatusCode != http.StatusOK || json.Unmarshal(text, &said) != nil || len(said.Params) == 0 || string(said.Params) == "null" {
		return nil, fmt.Errorf("it answers %d without kv_transfer_params (is it a server with --role prefill?): %s", answer.StatusCode, strings.TrimSpace(string(text[:min(len(text), 200)])))
	}
	return said.Params, nil
}
