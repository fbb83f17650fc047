package batch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
	"github.com/ridge-llm/ridge/server/store"
)

const (
	maxLines  = 50000 // of a batch, OpenAI's limit
	maxFaults = 100   // of an input that are reported

	maxCustomID = 512 // bytes; the ids of a batch are kept in memory
)

// inputLine is a line of a batch's input.
type inputLine struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// fault says what is wrong with a line; "" when nothing is.
func (l *inputLine) fault(endpoint string) (code, message string) {
	switch {
	case l.CustomID == "":
		return "missing_custom_id", "custom_id is missing"
	case len(l.CustomID) > maxCustomID:
		return "invalid_custom_id", fmt.Sprintf("custom_id has %d bytes; %d are possible", len(l.CustomID), maxCustomID)
	case l.Method != "" && l.Method != http.MethodPost:
		return "invalid_method", fmt.Sprintf("method is %q; it must be POST", l.Method)
	case l.URL != endpoint:
		return "invalid_url", fmt.Sprintf("url is %q; it must be the batch's endpoint, %s", l.URL, endpoint)
	case !bytes.HasPrefix(bytes.TrimSpace(l.Body), []byte("{")):
		return "missing_body", "body is missing or not a JSON object"
	}
	return "", ""
}

// eachLine reads an input line by line until each fails; empty lines do not count. It returns how many there are.
func eachLine(r io.Reader, each func(number int, line []byte) error) (n int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, api.MaxBody)
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		n++
		if err := each(number, lines.Bytes()); err != nil {
			return n, err
		}
	}
	return n, lines.Err()
}

// checkInput reads a batch's whole input and says what is wrong with it.
func checkInput(r io.Reader, endpoint string) (total int, faults []store.BatchError) {
	seen := map[string]int{}
	enough := errors.New("enough")
	add := func(line int, code, message string) error {
		faults = append(faults, store.BatchError{Code: code, Message: message, Line: line})
		if len(faults) >= maxFaults {
			return enough
		}
		return nil
	}
	total, err := eachLine(r, func(number int, line []byte) error {
		var l inputLine
		if json.Unmarshal(line, &l) != nil {
			return add(number, "invalid_json_line", "the line is not a JSON object with custom_id, method, url and body")
		}
		if code, message := l.fault(endpoint); code != "" {
			return add(number, code, message)
		}
		if first := seen[l.CustomID]; first > 0 {
			return add(number, "duplicate_custom_id", fmt.Sprintf("custom_id %q is that of line %d", l.CustomID, first))
		}
		if seen[l.CustomID] = number; len(seen) > maxLines {
			_ = add(number, "too_many_lines", fmt.Sprintf("there are more than %d lines; split the input", maxLines))
			return enough
		}
		return nil
	})
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		_ = add(total+1, "line_too_long", "a line is longer than 16 MiB, the maximum")
	case err != nil && !errors.Is(err, enough):
		_ = add(0, "unreadable", err.Error())
	case total == 0:
		_ = add(0, "empty_file", "the input has no lines")
	}
	return total, faults
}

// finished is a line that has been answered or refused.
type finished struct {
	kind string // store.Output or store.Error
	line store.Line
}

// errLater says that a line was not taken now; it can be tried again.
var errLater = errors.New("the engine's queue is full")

// answerLine runs a line as if it had come by itself, from the owner of its batch.
func (s *API) answerLine(ctx context.Context, owner string, l *inputLine) (*finished, error) {
	id := strings.ToLower(rand.Text())
	r, err := http.NewRequestWithContext(access.With(serving.Background(ctx), s.keys.Owner(owner)), http.MethodPost, l.URL, bytes.NewReader(l.Body))
	if err != nil {
		return nil, err
	}
	w := &recorder{header: http.Header{"X-Request-Id": {id}}}
	if streams(l.Body) {
		s.Fail(w, r, api.Invalid("stream", "a batch answers each line in one piece; leave stream out"))
	} else {
		s.handler.ServeHTTP(w, r)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case w.status == http.StatusTooManyRequests || w.status == http.StatusServiceUnavailable:
		return nil, errLater
	}
	kind := store.Output
	if w.status != http.StatusOK {
		kind = store.Error
	}
	return newFinished(kind, l.CustomID, map[string]any{"status_code": w.status, "request_id": id, "body": json.RawMessage(w.body.Bytes())}, nil)
}

// recorder keeps an answer; it implements http.ResponseWriter.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }

// newFinished is a line of the output.
func newFinished(kind, customID string, response, failure any) (*finished, error) {
	line, err := json.Marshal(map[string]any{"id": "batch_req_" + strings.ToLower(rand.Text()), "custom_id": customID, "response": response, "error": failure})
	return &finished{kind, store.Line{CustomID: customID, Text: line}}, err
}

// streams reports whether a body asks for a stream.
func streams(body []byte) bool {
	var q struct {
		Stream json.RawMessage `json:"stream"`
	}
	return json.Unmarshal(body, &q) == nil && string(q.Stream) == "true"
}
