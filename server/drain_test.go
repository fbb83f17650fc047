package server_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
)

// TestDrainEnds: requests that are still under way when the time to end them is over get an error that says so, in a stream as its
// last event, and Serve returns one that says how many.
func TestDrainEnds(t *testing.T) {
	hold := newBrake(5)
	leaks.Check(t)
	m, err := ridge.Load("", ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	m.OnStep(hold.step)
	defer m.Close()
	defer hold.release()
	s := listen(t, func() (server.Site, error) { return server.New(m, server.Options{Drain: time.Millisecond}), nil })
	s.until(t, 200)
	stream, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once", "max_tokens": 400, "ignore_eos": true, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	type answer struct {
		status int
		text   string
	}
	whole := make(chan answer, 1)
	go func() {
		r, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Twice", "max_tokens": 400, "ignore_eos": true}`))
		if err != nil {
			whole <- answer{0, err.Error()}
			return
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		whole <- answer{r.StatusCode, string(text)}
	}()
	for m.Stats().Running+m.Stats().Waiting < 2 {
		time.Sleep(time.Millisecond)
	}
	s.stop()
	text, err := io.ReadAll(stream.Body)
	if err != nil || !strings.Contains(string(text), `"code":"cut_off"`) || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
		t.Errorf("the stream ended with %v after %s", err, text)
	}
	if a := <-whole; a.status != 503 || !strings.Contains(a.text, "stopped before the answer was complete") {
		t.Errorf("the other request got %d %s", a.status, a.text)
	}
	if err := <-s.returned; err == nil || !strings.Contains(err.Error(), "2 requests were cut off") {
		t.Errorf("Serve returned %v", err)
	}
	hold.release()
	leaks.Pages(t, m)
}

// locked is a buffer for several goroutines.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *locked) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

// TestClientGone: a client that leaves before its answer is no error of the server's: the log has 499, and no line of an error.
func TestClientGone(t *testing.T) {
	hold := newBrake(2)
	var log locked
	h, m := start(t, ridge.Options{}, server.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	m.OnStep(hold.step)
	defer hold.release()
	for _, path := range []string{"/v1/completions", "/api/generate"} {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", h.URL+path, strings.NewReader(`{"prompt": "Once", "max_tokens": 400, "stream": false, "options": {"num_predict": 400}}`))
		if err != nil {
			t.Fatal(err)
		}
		left := make(chan struct{})
		go func() {
			defer close(left)
			if a, err := http.DefaultClient.Do(r); err == nil {
				a.Body.Close()
			}
		}()
		for m.Stats().Running+m.Stats().Waiting == 0 {
			time.Sleep(time.Millisecond)
		}
		leave()
		<-left
		for strings.Count(log.text(), "msg=request ") == 0 {
			time.Sleep(time.Millisecond)
		}
		hold.release()
		for m.Stats().Running+m.Stats().Waiting > 0 {
			time.Sleep(time.Millisecond)
		}
		if text := log.text(); !strings.Contains(text, "status=499") || strings.Contains(text, "level=ERROR") {
			t.Errorf("%s: the log says %s", path, text)
		}
		log.mu.Lock()
		log.Reset()
		log.mu.Unlock()
		hold.hold(2)
	}
}
