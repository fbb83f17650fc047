package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/store"
	"github.com/ridge-llm/ridge/server/stored"
)

// Anthropic's batches of messages are batches of lines for this endpoint, whose input is in the request that makes them.
const messagesEndpoint = "/v1/messages"

// messagesWindow is how long such a batch may take.
const messagesWindow = 24 * time.Hour

// messagesPrefix begins the ids of such batches where those of others have batchPrefix.
const messagesPrefix, batchPrefix = "msgbatch_", "batch_"

// MessagesRoutes are the endpoints of batches of messages.
func (s *API) MessagesRoutes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /v1/messages/batches":             s.withStore(s.createMessages),
		"GET /v1/messages/batches":              s.withStore(s.listMessages),
		"GET /v1/messages/batches/{id}":         s.withStore(s.messagesBatch),
		"GET /v1/messages/batches/{id}/results": s.withStore(s.messagesResults),
		"POST /v1/messages/batches/{id}/cancel": s.withStore(s.cancelMessages),
		"DELETE /v1/messages/batches/{id}":      s.withStore(s.deleteMessages),
	}
}

// requestsAsLines reads {"requests": [{"custom_id", "params"}, …]} as the lines of an input. It implements io.Reader.
type requestsAsLines struct {
	from  *json.Decoder
	begun bool
	lines bytes.Buffer // what has not been read
	seen  map[string]bool
	err   error
}

// Read implements io.Reader.
func (q *requestsAsLines) Read(b []byte) (int, error) {
	for q.lines.Len() == 0 && q.err == nil {
		q.err = q.next()
	}
	if q.lines.Len() > 0 {
		return q.lines.Read(b)
	}
	return 0, q.err
}

// next reads one request more; io.EOF behind the last.
func (q *requestsAsLines) next() error {
	const form = `the body should be {"requests": [{"custom_id": …, "params": {…}}, …]}`
	if !q.begun {
		for _, want := range []any{json.Delim('{'), "requests", json.Delim('[')} {
			if got, err := q.from.Token(); err != nil || got != want {
				return q.unread(err, form)
			}
		}
		q.begun = true
	}
	if !q.from.More() {
		for _, want := range []any{json.Delim(']'), json.Delim('}')} {
			if got, err := q.from.Token(); err != nil || got != want {
				return q.unread(err, form)
			}
		}
		if len(q.seen) == 0 {
			return api.Invalid("requests", "requests is empty")
		}
		return io.EOF
	}
	var r struct {
		CustomID string          `json:"custom_id"`
		Params   json.RawMessage `json:"params"`
	}
	if err := q.from.Decode(&r); err != nil {
		return q.unread(err, form)
	}
	l := inputLine{CustomID: r.CustomID, Method: http.MethodPost, URL: messagesEndpoint, Body: r.Params}
	n := len(q.seen)
	if _, fault := l.fault(messagesEndpoint); fault != "" {
		return api.Invalid(fmt.Sprintf("requests[%d]", n), "requests[%d]: %s", n, strings.Replace(fault, "body is", "params is", 1))
	}
	switch {
	case q.seen[l.CustomID]:
		return api.Invalid(fmt.Sprintf("requests[%d].custom_id", n), "requests[%d]: custom_id %q is that of another request", n, l.CustomID)
	case n == maxLines:
		return api.Invalid("requests", "there are more than %d requests; send several batches", maxLines)
	}
	q.seen[l.CustomID] = true
	return json.NewEncoder(&q.lines).Encode(l)
}

// unread is why a body could not be read.
func (q *requestsAsLines) unread(err error, form string) error {
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return &api.Error{Status: http.StatusRequestEntityTooLarge, Kind: "invalid_request_error", Message: fmt.Sprintf("the body is larger than %d bytes, the maximum; send several batches", large.Limit)}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return api.Invalid("", "%s: %v", form, err)
	}
	return api.Invalid("", "%s", form)
}

// createMessages is POST /v1/messages/batches.
func (s *API) createMessages(w http.ResponseWriter, r *http.Request) (any, error) {
	lines := &requestsAsLines{from: json.NewDecoder(http.MaxBytesReader(w, api.Arriving(w, r), maxFile)), seen: map[string]bool{}}
	st := stored.View(s.store, r)
	upload, err := st.Receive(st.Owner(), lines, 2*maxFile)
	if err != nil {
		return nil, unfinished(err)
	}
	f, err := upload.Keep("messages.jsonl", "batch", time.Time{})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	b, err := st.NewBatch(store.Batch{
		Owner: st.Owner(), Input: f.ID, Endpoint: messagesEndpoint, Window: messagesWindow.String(), Status: store.Validating,
		Created: now.Unix(), Expires: now.Add(messagesWindow).Unix(), Counts: store.Counts{Total: len(lines.seen)},
	})
	if err != nil {
		return nil, errors.Join(err, st.Delete(f.ID))
	}
	s.runner.wake()
	return s.asMessages(r, b), nil
}

// findMessages is the batch that a request's path names.
func (s *API) findMessages(r *http.Request) (store.Batch, error) {
	id, ok := strings.CutPrefix(r.PathValue("id"), messagesPrefix)
	b, err := stored.View(s.store, r).Batch(batchPrefix + id)
	if err != nil || !ok || b.Endpoint != messagesEndpoint {
		return b, fmt.Errorf("%w: there is no batch of messages %q", store.ErrNotFound, r.PathValue("id"))
	}
	return b, nil
}

// messagesBatch is GET /v1/messages/batches/ID.
func (s *API) messagesBatch(_ http.ResponseWriter, r *http.Request) (any, error) {
	b, err := s.findMessages(r)
	if err != nil {
		return nil, err
	}
	return s.asMessages(r, b), nil
}

// cancelMessages is POST /v1/messages/batches/ID/cancel.
func (s *API) cancelMessages(_ http.ResponseWriter, r *http.Request) (any, error) {
	b, err := s.findMessages(r)
	if err != nil {
		return nil, err
	}
	if b, err = s.runner.cancel(b.ID); err != nil {
		return nil, err
	}
	return s.asMessages(r, b), nil
}

// deleteMessages is DELETE /v1/messages/batches/ID: of one that has ended, with its results.
func (s *API) deleteMessages(_ http.ResponseWriter, r *http.Request) (any, error) {
	b, err := s.findMessages(r)
	if err != nil {
		return nil, err
	}
	if !b.Status.Over() {
		return nil, api.Invalid("id", "the batch %s has not ended; cancel it, and delete it when its processing_status is ended", messagesID(b))
	}
	if err := s.store.DeleteBatch(b.ID); err != nil {
		return nil, err
	}
	return map[string]string{"id": messagesID(b), "type": "message_batch_deleted"}, nil
}

// listMessages is GET /v1/messages/batches, the newest first.
func (s *API) listMessages(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit := 20
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return nil, api.Invalid("limit", "limit is %q; 1 to 1000 is possible", text)
		}
		limit = n
	}
	all := slices.DeleteFunc(stored.View(s.store, r).Batches(), func(b store.Batch) bool { return b.Endpoint != messagesEndpoint })
	part, more := messagesPage(q, all, limit)
	list := []any{}
	for _, b := range part {
		list = append(list, s.asMessages(r, b))
	}
	body := map[string]any{"data": list, "has_more": more, "first_id": nil, "last_id": nil}
	if len(part) > 0 {
		body["first_id"], body["last_id"] = messagesID(part[0]), messagesID(part[len(part)-1])
	}
	return body, nil
}

// messagesPage is the part of a list behind after_id, or before before_id, and whether there is more that way.
func messagesPage(q url.Values, all []store.Batch, limit int) (part []store.Batch, more bool) {
	place := func(id string) int {
		return slices.IndexFunc(all, func(b store.Batch) bool { return messagesID(b) == id })
	}
	if id := q.Get("before_id"); id != "" {
		all = all[:max(place(id), 0)]
		return all[max(len(all)-limit, 0):], len(all) > limit
	}
	if id := q.Get("after_id"); id != "" {
		all = all[place(id)+1:]
	}
	return all[:min(limit, len(all))], len(all) > limit
}

func messagesID(b store.Batch) string { return messagesPrefix + strings.TrimPrefix(b.ID, batchPrefix) }

// asMessages is a batch in Anthropic's form. How its requests ended is told when all have, as there.
func (s *API) asMessages(r *http.Request, b store.Batch) map[string]any {
	at := func(seconds int64) any {
		if seconds == 0 {
			return nil
		}
		return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	counts := map[string]int{"processing": b.Counts.Total, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
	status, results := "in_progress", any(nil)
	switch {
	case b.Status == store.Cancelling:
		status = "canceling"
	case b.Status.Over():
		status = "ended"
		results = "/v1/messages/batches/" + messagesID(b) + "/results"
		if r.Host != "" {
			scheme := "http://"
			if r.TLS != nil {
				scheme = "https://"
			}
			results = scheme + r.Host + results.(string)
		}
		left := b.Counts.Total - b.Counts.Completed - b.Counts.Failed
		counts["processing"], counts["succeeded"], counts["errored"] = 0, b.Counts.Completed, b.Counts.Failed
		switch b.Status {
		case store.Cancelled:
			counts["canceled"] = left
		case store.Expired:
			counts["expired"] = s.expired(b)
			counts["errored"] -= counts["expired"]
		default:
			counts["errored"] += left // its input was deleted
		}
	}
	return map[string]any{"id": messagesID(b), "type": "message_batch", "processing_status": status, "request_counts": counts, "created_at": at(b.Created), "expires_at": at(b.Expires),
		"ended_at": at(max(b.Completed, b.Failed, b.Expired, b.Cancelled)), "cancel_initiated_at": at(b.Cancelling), "archived_at": nil, "results_url": results}
}

// outcome is a line of a batch's output or errors, in Anthropic's form.
func outcome(line []byte) (id string, result any, err error) {
	var l struct {
		CustomID string `json:"custom_id"`
		Response *struct {
			Status int             `json:"status_code"`
			Body   json.RawMessage `json:"body"`
		} `json:"response"`
		Error *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return "", nil, err
	}
	switch {
	case l.Error != nil && l.Error.Code == lateCode:
		return l.CustomID, map[string]string{"type": "expired"}, nil
	case l.Response == nil:
		return l.CustomID, map[string]any{"type": "errored", "error": map[string]any{"type": "error", "error": map[string]string{"type": "api_error", "message": "the request was not answered"}}}, nil
	case l.Response.Status == http.StatusOK:
		return l.CustomID, map[string]any{"type": "succeeded", "message": l.Response.Body}, nil
	}
	return l.CustomID, map[string]any{"type": "errored", "error": l.Response.Body}, nil
}

// expired is how many requests of a batch there was no time for.
func (s *API) expired(b store.Batch) (n int) {
	f, err := s.store.Open(b.ErrorFile)
	if err != nil {
		return 0 // it was deleted
	}
	defer f.Close()
	_, _ = eachLine(f, func(_ int, line []byte) error { // what is damaged counts as an error
		if _, result, err := outcome(line); err == nil {
			if r, ok := result.(map[string]string); ok && r["type"] == "expired" {
				n++
			}
		}
		return nil
	})
	return n
}

// messagesResults is GET /v1/messages/batches/ID/results: a line for each request, in no order.
func (s *API) messagesResults(w http.ResponseWriter, r *http.Request) (any, error) {
	b, err := s.findMessages(r)
	if err != nil {
		return nil, err
	}
	if !b.Status.Over() {
		return nil, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "not_found", Message: "the batch has not ended; its results are there when processing_status is ended"}
	}
	w.Header().Set("Content-Type", "application/x-jsonl")
	w.WriteHeader(http.StatusOK)
	if err := s.writeOutcomes(w, b); err != nil {
		s.Log.Error("the results of a batch could not be sent whole", "batch", b.ID, "error", err)
		panic(http.ErrAbortHandler) // so that the client does not take a part for all of it
	}
	return nil, nil
}

// writeOutcomes writes how each request of a batch that is over has ended.
func (s *API) writeOutcomes(w io.Writer, b store.Batch) error {
	out := json.NewEncoder(w)
	done := map[string]bool{}
	write := func(id string, result any) error {
		done[id] = true
		return out.Encode(map[string]any{"custom_id": id, "result": result})
	}
	for _, file := range []string{b.Output, b.ErrorFile} {
		if err := s.each(file, func(line []byte) error {
			id, result, err := outcome(line)
			if err != nil {
				return err
			}
			return write(id, result)
		}); err != nil {
			return err
		}
	}
	rest := any(map[string]string{"type": "canceled"})
	if b.Status != store.Cancelled {
		_, rest, _ = outcome([]byte("{}"))
	}
	return s.each(b.Input, func(line []byte) error {
		var l inputLine
		if err := json.Unmarshal(line, &l); err != nil || done[l.CustomID] {
			return err
		}
		return write(l.CustomID, rest)
	})
}

// each calls f with the lines of a file, of which there are none if it is "" or was deleted.
func (s *API) each(file string, f func(line []byte) error) error {
	if file == "" {
		return nil
	}
	x, err := s.store.Open(file)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer x.Close()
	_, err = eachLine(x, func(_ int, line []byte) error { return f(line) })
	return err
}
