package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// WriteTime is how long a client may take to read an answer or an event of one; a slower one is disconnected.
const WriteTime = 30 * time.Second

// Stream writes server-sent events. The header goes out with the first, so that a request refused before it still gets
// its own status.
type Stream struct {
	W       http.ResponseWriter
	control *http.ResponseController
	Begun   bool
}

// NewStream makes a stream of events to w.
func NewStream(w http.ResponseWriter) *Stream {
	return &Stream{W: w, control: http.NewResponseController(w)}
}

// Send writes one event.
func (s *Stream) Send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.write(data)
}

// End writes the last event.
func (s *Stream) End() error { return s.write([]byte("[DONE]")) }

// SendNamed writes an event that has a name, as Anthropic's have.
func (s *Stream) SendNamed(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.raw([]byte("event: " + name + "\ndata: " + string(data) + "\n\n"))
}

func (s *Stream) write(data []byte) error { return s.raw([]byte("data: " + string(data) + "\n\n")) }

func (s *Stream) raw(event []byte) error {
	s.begin("text/event-stream")
	// Writers without deadlines, as tests have, take their time.
	_ = s.control.SetWriteDeadline(time.Now().Add(WriteTime))
	_, err := s.W.Write(event)
	if err == nil {
		err = s.control.Flush()
	}
	if err != nil { // of the connection: the client has gone, or reads too slowly
		return fmt.Errorf("%w: %w", context.Canceled, err)
	}
	return nil
}

// begin sets the header, if nothing has been sent.
func (s *Stream) begin(contentType string) {
	if s.Begun {
		return
	}
	h := s.W.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache")
	s.Begun = true
}

// Fail ends the stream with an error: as an answer of its own if nothing has been sent.
func (s *Stream) Fail(srv *Responder, r *http.Request, err error) {
	if !s.Begun {
		srv.Fail(s.W, r, err)
		return
	}
	if s.Send(map[string]any{"error": srv.Error(s.W, r, err)}) == nil {
		_ = s.End()
	}
}

// Line writes an object as a line of its own.
func (s *Stream) Line(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.begin("application/x-ndjson")
	return s.raw(append(data, '\n'))
}
