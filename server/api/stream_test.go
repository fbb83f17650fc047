package api

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
)

// closed is an answer whose client has closed the connection.
type closed struct{ *httptest.ResponseRecorder }

func (closed) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestStreamToNobody: an event that cannot be sent means that the client has gone, which is no error of the server's, noticed by whichever side first.
func TestStreamToNobody(t *testing.T) {
	var log bytes.Buffer
	r := &Responder{Log: slog.New(slog.NewTextHandler(&log, nil)), Shape: func(string, *Error) any { return nil }}
	w := closed{httptest.NewRecorder()}
	s := NewStream(w)
	for what, err := range map[string]error{"an event": s.Send("x"), "a named event": s.SendNamed("a", "x"), "a line": s.Line("x"), "the end": s.End()} {
		if e := r.Error(w, httptest.NewRequest(http.MethodPost, "/v1/completions", nil), err); e.Status != StatusClientGone {
			t.Errorf("%s: %d %v", what, e.Status, err)
		}
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", log.String())
	}
}
