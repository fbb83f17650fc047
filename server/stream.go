package server

import (
	"encoding/json"
	"net/http"
	"time"
)

// writeTime is how long a client may take to read an answer or an event of one; a slower one is let go.
const writeTime = 30 * time.Second

// stream writes server-sent events. The header goes out with the first, so that what is refused before it still gets
// a status of its own.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, control: http.NewResponseController(w)}
}

// send writes one event.
func (s *stream) send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.write(data)
}

// end writes the last event.
func (s *stream) end() error { return s.write([]byte("[DONE]")) }

// sendNamed writes an event that has a name, as Anthropic's have.
func (s *stream) sendNamed(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.raw([]byte("event: " + name + "\ndata: " + string(data) + "\n\n"))
}

func (s *stream) write(data []byte) error { return s.raw([]byte("data: " + string(data) + "\n\n")) }

func (s *stream) raw(event []byte) error {
	s.begin("text/event-stream")
	// Writers without deadlines, as tests have, take their time.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.w.Write(event); err != nil {
		return err
	}
	return s.control.Flush()
}

// begin sets the header, if nothing has been sent.
func (s *stream) begin(contentType string) {
	if s.begun {
		return
	}
	h := s.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache")
	s.begun = true
}

// fail ends the stream with an error: as an answer of its own if nothing has been sent.
func (s *stream) fail(srv *Server, r *http.Request, err error) {
	if !s.begun {
		srv.fail(s.w, r, err)
		return
	}
	if s.send(map[string]any{"error": srv.told(s.w, r, err)}) == nil {
		_ = s.end()
	}
}
