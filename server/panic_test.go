package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// TestPanic: a panic answers its request with 500 in its API's shape; a stream under way gets an error event, or at least
// an end that is none. The server and the engine go on.
func TestPanic(t *testing.T) {
	leaks.Check(t)
	m, err := ridge.Load("", ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := New(m, Options{})
	broken := []serving.Job{{Prompt: []int32{1}, Params: ridge.Params{Constraint: &ridge.Constraint{}}}} // which no client can send
	s.mux.HandleFunc("GET /v1/messages/panic", func(http.ResponseWriter, *http.Request) { panic("of a handler") })
	s.mux.HandleFunc("GET /api/submitting", func(w http.ResponseWriter, r *http.Request) {
		s.Fail(w, r, s.Run(r.Context(), broken, func(*serving.Job, ridge.Piece) error { return nil }))
	})
	s.mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		out := api.NewStream(w)
		if err := out.Send("first"); err != nil {
			t.Error(err)
		}
		fine := []serving.Job{{Prompt: []int32{1}, Params: ridge.Greedy()}}
		out.Fail(s.Responder, r, s.Run(r.Context(), fine, func(*serving.Job, ridge.Piece) error { panic("of a reader of the answer") }))
	})
	s.mux.HandleFunc("GET /cut", func(w http.ResponseWriter, r *http.Request) {
		if err := api.NewStream(w).Send("first"); err != nil {
			t.Error(err)
		}
		panic("of a handler")
	})
	h := httptest.NewServer(s)
	defer h.Close()
	get := func(path string) (int, string) {
		r, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(data)
	}
	for path, want := range map[string]string{"/v1/messages/panic": `"type":"error"`, "/api/submitting": `{"error":"internal error`} {
		if status, text := get(path); status != 500 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text := get("/stream"); status != 200 || !strings.HasPrefix(text, "data: \"first\"\n\n") || !strings.Contains(text, `"internal_error"`) {
		t.Errorf("%d %s", status, text)
	}
	if r, err := http.Get(h.URL + "/cut"); err != nil {
		t.Error(err)
	} else if _, err := io.ReadAll(r.Body); err == nil {
		t.Error("half an answer looks like a whole one")
	}
	if status, text := get("/health"); status != 200 {
		t.Errorf("afterwards: %d %s", status, text)
	}
	leaks.Pages(t, m)
}
