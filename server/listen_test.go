package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
)

// listening is a front under way.
type listening struct {
	url      string
	stop     context.CancelFunc
	returned chan error
}

func listen(t *testing.T, load func() (server.Site, error), ready ...func()) *listening {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &listening{url: "http://" + l.Addr().String(), stop: stop, returned: make(chan error, 1)}
	go func() {
		s.returned <- server.NewFront(slog.New(slog.DiscardHandler)).ServeLoading(ctx, l, load, func() {
			for _, f := range ready {
				f()
			}
		})
	}()
	t.Cleanup(stop)
	return s
}

// get is the status and body of a path.
func (s *listening) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.Get(s.url + path)
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

// until waits for /health to have a status.
func (s *listening) until(t *testing.T, status int) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got, body := s.get(t, "/health")
		if got == status {
			return body
		}
		if time.Now().After(end) {
			t.Fatalf("/health stays at %d %s", got, body)
		}
	}
}

// TestServe: while the model is loaded everything gets 503 in its API's shape; then it answers; told to stop it ends what
// it has, takes nothing new, and returns.
func TestServe(t *testing.T) {
	hold := newBrake(20)
	leaks.Check(t)
	m, err := ridge.Load("", ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	m.OnStep(hold.step)
	defer m.Close()
	defer hold.release()
	loaded := make(chan struct{})
	ready := make(chan struct{})
	s := listen(t, func() (server.Site, error) { <-loaded; return server.New(m, server.Options{}), nil }, func() { close(ready) })
	if body := s.until(t, 503); !strings.Contains(body, `"loading"`) {
		t.Error(body)
	}
	for path, want := range map[string]string{"/v1/models": `{"error":{"message":"the model is being loaded`, "/v1/messages": `"type":"error"`, "/api/tags": `{"error":"the model is being loaded`} {
		if status, body := s.get(t, path); status != 503 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	close(loaded)
	<-ready
	if status, body := s.get(t, "/health"); status != 200 {
		t.Errorf("ready, and /health says %d %s", status, body)
	}

	r, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once", "max_tokens": 60, "ignore_eos": true, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	s.stop()
	if body := s.until(t, 503); !strings.Contains(body, `"stopping"`) {
		t.Error(body)
	}
	late, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once"}`))
	if err != nil {
		t.Fatal(err)
	}
	late.Body.Close()
	if late.StatusCode != 503 || late.Header.Get("Retry-After") == "" {
		t.Errorf("while stopping a request gets %d, Retry-After %q", late.StatusCode, late.Header.Get("Retry-After"))
	}
	hold.release()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if all := events(t, string(text)); all[len(all)-1].Choices[0].Finish != "length" {
		t.Errorf("the answer under way ended with %+v", all[len(all)-1])
	}
	if err := <-s.returned; err != nil {
		t.Error(err)
	}
	leaks.Pages(t, m)
}

// TestServeLoadFails: what stops loading ends Serve; so does being told to stop in the middle of it.
func TestServeLoadFails(t *testing.T) {
	broken := errors.New("the file is broken")
	s := listen(t, func() (server.Site, error) { return nil, broken })
	if err := <-s.returned; !errors.Is(err, broken) {
		t.Error(err)
	}
	never := make(chan struct{})
	defer close(never)
	s = listen(t, func() (server.Site, error) { <-never; return nil, broken })
	s.until(t, 503)
	s.stop()
	if err := <-s.returned; err != nil {
		t.Error(err)
	}
}

// TestHealthAfterFailure: an engine that has stopped is not ready.
func TestHealthAfterFailure(t *testing.T) {
	leaks.Check(t)
	m, err := ridge.Load("", ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := listen(t, func() (server.Site, error) { return server.New(m, server.Options{}), nil })
	s.until(t, 200)
	m.Close()
	if body := s.until(t, 503); !strings.Contains(body, "closed") {
		t.Error(body)
	}
	leaks.Pages(t, m)
}
