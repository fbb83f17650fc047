package route

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// events is an answer on its way. Of a stream only whole events are passed on, each as soon as it is whole: after half of one no error could be sent.
type events struct {
	kind kind
	data []byte // that has come and was not passed on
	from int    // of data: bytes that were looked through for an end already
	torn bool   // a part of an event was passed on, since it is very large
}

type kind int

const (
	opaque kind = iota // bytes as they come
	sse                // server-sent events, each ended by an empty line
	lines              // an object a line
)

const (
	chunk     = 16 << 10 // bytes that are read at once
	largeItem = 4 << 20  // bytes of an event that is passed on in parts
)

// reset begins with the answer of this header.
func (e *events) reset(h http.Header) {
	*e = events{data: e.data[:0]}
	switch t := h.Get("Content-Type"); {
	case h.Get("Content-Encoding") != "":
	case strings.HasPrefix(t, "text/event-stream"):
		e.kind = sse
	case strings.HasPrefix(t, "application/x-ndjson"):
		e.kind = lines
	}
}

// space is where the next bytes go.
func (e *events) space() []byte {
	if cap(e.data)-len(e.data) < chunk {
		e.data = append(make([]byte, 0, 2*cap(e.data)+chunk), e.data...)
	}
	return e.data[len(e.data):cap(e.data)]
}

// add says how many came.
func (e *events) add(n int) { e.data = e.data[:len(e.data)+n] }

// whole is what can be passed on now; with done, all.
func (e *events) whole(done bool) []byte {
	if done || e.kind == opaque {
		return e.data
	}
	end := "\n"
	if e.kind == sse {
		end = "\n\n"
	}
	from := max(e.from-3, 0)
	e.from = len(e.data)
	at := bytes.LastIndex(e.data[from:], []byte(end)) + len(end)
	if i := bytes.LastIndex(e.data[from:], []byte("\r\n\r\n")) + 4; e.kind == sse && i > 3 {
		at = max(at, i)
	}
	if at >= len(end) {
		e.torn = false
		return e.data[:from+at]
	}
	if len(e.data) > largeItem {
		e.torn = true
		return e.data
	}
	return nil
}

// passed says that the first n bytes were passed on.
func (e *events) passed(n int) {
	e.data = e.data[:copy(e.data, e.data[n:])]
	e.from = len(e.data)
}

// count is how many tokens are in what is passed on, about: an event has one.
func (e *events) count(part []byte) int {
	switch e.kind {
	case sse:
		return bytes.Count(part, []byte("data: {"))
	case lines:
		return bytes.Count(part, []byte("\n"))
	}
	return len(part) / 4
}

// end is what ends a stream with an error; nil where the client can only see that the connection ends.
func (e *events) end(path string, body any) []byte {
	text, err := json.Marshal(body)
	if err != nil || e.torn {
		return nil
	}
	switch {
	case e.kind == sse && (strings.HasPrefix(path, "/v1/messages") || strings.HasPrefix(path, "/v1/responses")):
		return []byte("event: error\ndata: " + string(text) + "\n\n")
	case e.kind == sse:
		return []byte("data: " + string(text) + "\n\n")
	case e.kind == lines:
		return append(text, '\n')
	}
	return nil
}

func contains(b []byte, text string) bool { return bytes.Contains(b, []byte(text)) }
