package route

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/route/prefix"
	"github.com/ridge-llm/ridge/route/prompt"
	"github.com/ridge-llm/ridge/route/upstream"
	"github.com/ridge-llm/ridge/server/api"
)

// memory is what a request needs while it is under way, to be used again.
type memory struct {
	body []byte
	ask  prompt.Ask
	out  events
}

var memories = sync.Pool{New: func() any { return new(memory) }}

// keptBody is the largest body, or event, whose memory is kept.
const keptBody = 1 << 20 // bytes

// toOne answers a request with the answer of one replica: where the first fails before it has begun to answer, of another.
func (rt *Router) toOne(w http.ResponseWriter, r *http.Request, c *call) {
	m := memories.Get().(*memory)
	defer func() {
		if cap(m.body) <= keptBody && cap(m.out.data) <= keptBody {
			memories.Put(m)
		}
	}()
	var err error
	if m.body, err = api.RawBody(w, r, m.body); err != nil {
		rt.fail(w, r, err)
		return
	}
	e := &errand{ask: &m.ask}
	m.ask.Read(m.body, rt.rules(c))
	if !asksForText(r) {
		m.ask.Chain, m.ask.Tokens = m.ask.Chain[:0], 0
	}
	if name := rt.options.SessionKey; name != "" {
		if s := r.Header.Get(name); s != "" {
			e.session = uint64(prefix.Hash(0, s)) | 1
		}
	}
	if m.ask.Tokens > 0 {
		if err := c.client.TakePrompt(m.ask.Tokens); err != nil {
			rt.fail(w, r, err)
			return
		}
	}
	body, prefilled := rt.prefilled(r, c, m.body, m.ask.Tokens)
	defer prefilled()
	rt.send(w, r, c, e, rt.request(r, c, body), &m.out)
}

// rules are what bodies of a client's are read by.
func (rt *Router) rules(c *call) prompt.Rules {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rules := prompt.Rules{Tenant: c.client.Salt(), Block: rt.block}
	if len(rt.replicas) > 0 && len(rt.replicas[0].models) > 0 {
		rules.Base = rt.replicas[0].models[0]
	}
	return rules
}

// asksForText reports whether a request is for an answer whose prompt a replica keeps.
func asksForText(r *http.Request) bool {
	switch r.URL.Path {
	case "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/api/chat", "/api/generate", "/inference/v1/generate":
		return r.Method == http.MethodPost
	}
	return false
}

// request is a client's request as replicas get it.
func (rt *Router) request(r *http.Request, c *call, body []byte) *upstream.Request {
	q := &upstream.Request{Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header, Body: body}
	from := r.RemoteAddr
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	if before := r.Header.Get("X-Forwarded-For"); before != "" {
		from = before + ", " + from
	}
	// The router has checked where a browser's request is from.
	q.Set = [][2]string{{"X-Request-Id", c.id}, {"X-Forwarded-For", from}, {"Origin", ""}, {"Sec-Fetch-Site", ""}}
	if rt.options.ReplicaKey != "" {
		q.Set = append(q.Set, [2]string{"Authorization", "Bearer " + rt.options.ReplicaKey}, [2]string{"X-Api-Key", ""})
	}
	return q
}

// refused is an answer that another replica may give better: one that takes no requests now.
type refused struct {
	header http.Header
	status int
	body   []byte
}

// send asks replicas until one has begun to answer.
func (rt *Router) send(w http.ResponseWriter, r *http.Request, c *call, e *errand, q *upstream.Request, out *events) {
	var last *refused
	for {
		err := rt.acquire(r.Context(), e)
		if err != nil {
			rt.giveUp(w, r, last, err)
			return
		}
		replica := e.replica
		began, no, err := rt.attempt(w, r, c, e, q, out)
		rt.release(e)
		if began || r.Context().Err() != nil {
			return
		}
		if no != nil {
			last = no
		}
		rt.missed(replica, err)
		if e.tried = append(e.tried, replica); len(e.tried) > rt.options.Retries {
			rt.giveUp(w, r, last, rt.nobody(e))
			return
		}
	}
}

// giveUp answers a request that no replica has begun to answer: with what the last one said, or else with an error.
func (rt *Router) giveUp(w http.ResponseWriter, r *http.Request, last *refused, err error) {
	if last == nil || errors.Is(err, context.Canceled) {
		rt.fail(w, r, err)
		return
	}
	copyHeader(w.Header(), last.header)
	w.WriteHeader(last.status)
	_, _ = w.Write(last.body) // the client may have gone
}

// missed notes that a replica did not answer. Where nobody listens it is away until a check finds it.
func (rt *Router) missed(r *replica, err error) {
	r.failed.Add(1)
	if err == nil {
		return
	}
	rt.log.Warn("a replica did not answer", "replica", r.url, "error", err)
	if errors.As(err, new(*upstream.DialError)) {
		rt.setStatus(r, away, err.Error(), false)
	}
}

// attempt sends a request to the errand's replica and passes its answer on. began is false if nothing was passed on: another may be asked then.
func (rt *Router) attempt(w http.ResponseWriter, r *http.Request, c *call, e *errand, q *upstream.Request, out *events) (began bool, no *refused, err error) {
	sent := time.Now()
	rt.figures.overhead.Observe(sent.Sub(c.arrived).Seconds())
	answer, err := e.replica.pool.Do(r.Context(), q)
	if err != nil {
		return false, nil, err
	}
	defer answer.Close()
	out.reset(answer.Header)
	done := false
	for n := 0; n == 0 && !done; {
		if n, err = answer.Read(out.space()); err != nil && err != io.EOF {
			return false, nil, err
		}
		out.add(n)
		done = err == io.EOF
	}
	if no = busy(answer.Response, out.data); no != nil {
		return false, no, nil
	}
	rt.began(e, time.Since(sent).Seconds())
	copyHeader(w.Header(), answer.Header)
	if answer.ContentLength >= 0 {
		w.Header()["Content-Length"] = answer.Header["Content-Length"]
	}
	w.WriteHeader(answer.StatusCode)
	rt.relay(w, r, c, answer, out, done)
	return true, nil, nil
}

// busy is an answer that says that the replica takes no more requests; nil for any other.
func busy(a *http.Response, body []byte) *refused {
	full := a.StatusCode == http.StatusServiceUnavailable || a.StatusCode == http.StatusTooManyRequests && contains(body, `"queue_full"`)
	if !full || a.ContentLength < 0 || int(a.ContentLength) != len(body) {
		return nil
	}
	return &refused{header: a.Header.Clone(), status: a.StatusCode, body: append([]byte(nil), body...)}
}

// relay passes the rest of an answer on as it comes. An answer that breaks off is ended with an error that says so, after the last whole event, or the
// client's connection is.
func (rt *Router) relay(w http.ResponseWriter, r *http.Request, c *call, answer *upstream.Response, out *events, done bool) {
	flush, _ := w.(http.Flusher)
	control := http.NewResponseController(w)
	var err error
	for {
		if whole := out.whole(done); len(whole) > 0 {
			c.client.CountOutput(out.count(whole))
			_ = control.SetWriteDeadline(time.Now().Add(api.WriteTime))
			if _, err := w.Write(whole); err != nil {
				return // the client has gone, or reads too slowly
			}
			if flush != nil && !done {
				flush.Flush()
			}
			out.passed(len(whole))
		}
		if done {
			return
		}
		var n int
		n, err = answer.Read(out.space())
		out.add(n)
		if done = err == io.EOF; err != nil && !done {
			break
		}
	}
	if r.Context().Err() != nil {
		return
	}
	rt.figures.cut.Inc()
	rt.log.Error("a replica broke an answer off", "id", c.id, "path", r.URL.Path, "error", err)
	lost := &api.Error{Status: http.StatusBadGateway, Kind: "server_error", Code: "replica_lost", Message: "the replica that was answering has gone; send the request again"}
	if last := out.end(r.URL.Path, rt.options.Shape(r.URL.Path, lost)); last != nil {
		if _, err := w.Write(last); err == nil {
			return
		}
	}
	panic(http.ErrAbortHandler) // so that the client does not take a part of the answer for all of it
}

// copyHeader copies an answer's header but for what is of its connection. The request's id stays the router's.
func copyHeader(to, from http.Header) {
	for name, values := range from {
		if !upstream.OfConnection(name) && name != "X-Request-Id" {
			to[name] = values
		}
	}
}
