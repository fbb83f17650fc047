package route

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
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
	until  atomic.Int64 // when it is asked again, ns, after it has failed or was full
	asked  atomic.Int64

	// Where it is asked for pages, as it has last said: what a replica is told before it has answered. nil: not known, or not to be relied on.
	place atomic.Pointer[map[string]json.RawMessage]
}

const (
	prefillTime = time.Minute     // of one that does not answer; the replica computes the prompt then
	prefillRest = 5 * time.Second // in which one that failed is not asked
	prefillFull = 2 * time.Second // in which one whose queue is full is not asked, at most: it says how long (Retry-After)
	prefillBody = 1 << 20         // bytes of an answer
	// prefillGrace is for a server that computes a prompt to say so when the replica has answered.
	prefillGrace = time.Second
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

// pick is the server with the fewest prompts of those that have not failed, or were not full, of late; nil: there is none.
func (p *prefillers) pick(now time.Time) (best *prefiller) {
	for _, x := range p.all {
		if now.UnixNano() < x.until.Load() {
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
// it fails. Where it is known at which address that server is asked for pages the replica is told at once, and takes them over while the prompt is being computed; done waits for
// the end of that.
func (rt *Router) prefilled(r *http.Request, c *call, body []byte, tokens int) (with []byte, done func()) {
	done = func() {}
	if len(rt.prefill.all) == 0 || tokens < rt.prefill.least || r.URL.Path != "/v1/completions" && r.URL.Path != "/v1/chat/completions" {
		return body, done
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields["kv_transfer_params"] != nil {
		return body, done // the replica says what is wrong with it, or the client has its own pair
	}
	x := rt.prefill.pick(rt.options.Now())
	if x == nil {
		return body, done
	}
	id := rand.Text()
	place := x.place.Load()
	for range rt.prefill.all {
		if place != nil {
			break
		}
		params, full := rt.prefillBy(r.Context(), r, c, x, fields, id)
		if params != nil {
			return pointed(fields, params, body), done
		}
		if x = rt.prefill.pick(rt.options.Now()); !full || x == nil {
			return body, done
		}
		place = x.place.Load() // of another, which is not full
	}
	if place == nil {
		return body, done
	}
	params := maps.Clone(*place)
	params["remote_request_id"], params["remote_block_ids"] = json.RawMessage(strconv.Quote(id)), json.RawMessage("null")
	delete(params, "remote_num_tokens")
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rt.prefillBy(ctx, r, c, x, fields, id)
	}()
	return pointed(fields, params, body), func() {
		late := time.AfterFunc(prefillGrace, cancel)
		<-ended
		late.Stop()
		cancel()
	}
}

// pointed is a body that says where the prompt's pages are.
func pointed(fields, params map[string]json.RawMessage, body []byte) []byte {
	fields = maps.Clone(fields)
	text, err := json.Marshal(params)
	if err == nil {
		fields["kv_transfer_params"] = text
		if text, err = json.Marshal(fields); err == nil {
			return text
		}
	}
	return body
}

// prefillBy has a server compute a prompt under a name, and returns what a replica is to be told of it; nil: it has failed, or its queue is full, and it is not asked for a while. One that is full
// has nothing under way for this router, perhaps, and would be chosen again and again before those that work.
func (rt *Router) prefillBy(ctx context.Context, r *http.Request, c *call, x *prefiller, fields map[string]json.RawMessage, id string) (params map[string]json.RawMessage, full bool) {
	x.active.Add(1)
	defer x.active.Add(-1)
	x.asked.Add(1)
	var err error
	params, err = rt.prefillAt(ctx, r, c, x, fields, id)
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		if refused.full > 0 {
			x.until.Store(rt.options.Now().Add(refused.full).UnixNano())
		}
		return nil, refused.full > 0 // else the replica says what is wrong with it; other requests are computed there as before
	}
	if err != nil {
		if x.place.Store(nil); r.Context().Err() == nil {
			x.until.Store(rt.options.Now().Add(prefillRest).UnixNano())
			rt.log.Warn("a server for prefill did not compute a prompt; the replica does", "server", x.url, "error", err)
		}
		return nil, false
	}
	var said string
	if json.Unmarshal(params["remote_request_id"], &said) == nil && said == id { // it takes names: the next replica need not wait
		x.place.Store(&params)
	}
	return params, false
}

// refusedError is that of a server which refuses a request: the fault is the request's, or its key's, or the queue is full for so long.
type refusedError struct {
	code int
	full time.Duration // 0: it is not
}

func (e *refusedError) Error() string { return fmt.Sprintf("it answers %d", e.code) }

// prefillAt has a server compute a prompt, and returns what the replica is to be told of it.
func (rt *Router) prefillAt(ctx context.Context, r *http.Request, c *call, x *prefiller, fields map[string]json.RawMessage, id string) (map[string]json.RawMessage, error) {
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
	ask["kv_transfer_params"] = json.RawMessage(`{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_request_id":"` + id + `","remote_block_ids":null,"remote_host":null,"remote_port":null}`)
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, prefillTime)
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
		refused := &refusedError{code: code}
		if busy(answer.Response, text) != nil {
			refused.full = prefillFull
			if s, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && s > 0 {
				refused.full = min(prefillFull, time.Duration(s)*time.Second)
			}
		}
		return nil, refused
	}
	var said struct {
		Params map[string]json.RawMessage `json:"kv_transfer_params"`
	}
	if answer.StatusCode != http.StatusOK || json.Unmarshal(text, &said) != nil || len(said.Params) == 0 {
		return nil, fmt.Errorf("it answers %d without kv_transfer_params (is it a server with --role prefill?): %s", answer.StatusCode, strings.TrimSpace(string(text[:min(len(text), 200)])))
	}
	return said.Params, nil
}
