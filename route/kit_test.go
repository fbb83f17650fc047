package route

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/route/policy"
	"github.com/ridge-llm/ridge/server/api"
)

// backend is a server behind the router under test.
type backend struct {
	*httptest.Server
	asked  atomic.Int64 // requests for text
	answer atomic.Pointer[http.HandlerFunc]
	health atomic.Int64 // status of /health

	mu      sync.Mutex
	models  []string
	metrics string
	headers []http.Header // of requests for text
}

func newBackend(t *testing.T, models ...string) *backend {
	b := &backend{models: models}
	b.health.Store(http.StatusOK)
	b.set(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"from":%q}`, b.URL) })
	b.Server = httptest.NewServer(b)
	t.Cleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

func (b *backend) set(h http.HandlerFunc) { b.answer.Store(&h) }

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	models, metrics := b.models, b.metrics
	b.mu.Unlock()
	switch r.URL.Path {
	case "/health":
		w.WriteHeader(int(b.health.Load()))
	case "/metrics":
		io.WriteString(w, metrics)
	case "/v1/models":
		var all []string
		for _, m := range models {
			all = append(all, fmt.Sprintf(`{"id":%q}`, m))
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(all, ","))
	default:
		b.asked.Add(1)
		b.mu.Lock()
		b.headers = append(b.headers, r.Header.Clone())
		b.mu.Unlock()
		(*b.answer.Load())(w, r)
	}
}

// router is a router over backends, all of which it has found to be ready.
func router(t *testing.T, o Options, all ...*backend) (*Router, *httptest.Server) {
	t.Helper()
	for _, b := range all {
		o.Replicas = append(o.Replicas, b.URL)
	}
	if o.Policy == nil {
		o.Policy = named(t, "round_robin")
	}
	if o.Interval == 0 {
		o.Interval = 20 * time.Millisecond
	}
	o.Shape = func(path string, e *api.Error) any { return map[string]any{"error": e} }
	o.Log = slog.New(slog.DiscardHandler)
	rt, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(rt)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		rt.Close()
	})
	wait(t, "all replicas are ready", func() bool {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		return rt.count(ready) == len(all)
	})
	return rt, s
}

func named(t *testing.T, name string) policy.Policy {
	t.Helper()
	p, err := policy.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wait waits for what comes soon.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// post sends a body and reads all of the answer.
func post(t *testing.T, url, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	return postUntil(t, t.Context(), url, body, header...)
}

func postUntil(t *testing.T, ctx context.Context, url, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return a, string(text), err
}

// stream writes events, and flushes each.
func stream(w http.ResponseWriter, kind string, all ...string) {
	w.Header().Set("Content-Type", kind)
	for _, e := range all {
		io.WriteString(w, e)
		w.(http.Flusher).Flush()
	}
}
