package route

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hijacked answers with these bytes and cuts the connection.
func hijacked(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(c, text)
		c.Close()
	}
}

func chunked(kind string, parts ...string) string {
	text := "HTTP/1.1 200 OK\r\nContent-Type: " + kind + "\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, p := range parts {
		text += fmt.Sprintf("%x\r\n%s\r\n", len(p), p)
	}
	return text
}

// TestVanish: a replica that vanishes at any byte of a streamed answer costs nothing before the first event, which comes from another then; after it
// the client gets whole events and an error, and never an end that looks like one.
func TestVanish(t *testing.T) {
	bad, good := newBackend(t), newBackend(t)
	good.set(func(w http.ResponseWriter, r *http.Request) {
		stream(w, "text/event-stream", "data: {\"good\":1}\n\n", "data: [DONE]\n\n")
	})
	_, s := router(t, Options{Retries: 1}, bad, good)
	first, second := "data: {\"bad\":1}\n\n", "data: {\"bad\":2}\n\n"
	whole := chunked("text/event-stream", first, second) + "0\r\n\r\n"
	head := strings.Index(whole, first)
	ends := strings.Index(whole, second)
	for n := 0; n < len(whole); n++ {
		bad.set(hijacked(whole[:n]))
		for range 2 { // one of the two goes to the bad one first
			answer, text, err := post(t, s.URL+chat, "{}")
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("cut at %d: %v %v", n, answer, err)
			}
			if text == "data: {\"good\":1}\n\ndata: [DONE]\n\n" {
				continue
			}
			rest, ok := strings.CutPrefix(text, first)
			if n >= ends+len(second) {
				rest, ok = strings.CutPrefix(text, first+second)
			}
			if n <= head || !ok || !strings.HasPrefix(rest, `data: {"error":`) || !strings.Contains(rest, "replica_lost") || !strings.HasSuffix(rest, "\n\n") {
				t.Fatalf("cut at %d: the client got %q", n, text)
			}
		}
	}
}

// TestBrokenBody: of an answer that is no stream the client's connection is cut with the replica's.
func TestBrokenBody(t *testing.T) {
	b := newBackend(t)
	b.set(hijacked("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"half\":"))
	_, s := router(t, Options{}, b)
	if answer, text, err := post(t, s.URL+chat, "{}"); err == nil {
		t.Errorf("half an answer was taken for %d %q", answer.StatusCode, text)
	}
	b.set(hijacked(chunked("application/x-ndjson", "{\"a\":1}\n", "{\"b\":")))
	if _, text, err := post(t, s.URL+"/api/chat", "{}"); err != nil || !strings.HasPrefix(text, "{\"a\":1}\n{\"error\":") {
		t.Errorf("%q %v", text, err)
	}
}

// TestRefused: replicas that take nothing now are passed over; if all do so, the client gets what the last one said.
func TestRefused(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	_, s := router(t, Options{Retries: 3}, a, b)
	refuse := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"code":%q}}`, code)
		}
	}
	for _, c := range []struct {
		status int
		code   string
		passed bool
	}{{503, "shutting_down", true}, {429, "queue_full", true}, {429, "rate_limit_exceeded", false}, {400, "", false}, {500, "", false}} {
		a.set(refuse(c.status, c.code))
		refusals := 0
		for range 4 {
			if answer, _, err := post(t, s.URL+chat, "{}"); err != nil || answer.StatusCode != http.StatusOK {
				refusals++
			}
		}
		if refusals != 0 && c.passed || refusals != 2 && !c.passed {
			t.Errorf("%d %s: %d of 4 requests were refused", c.status, c.code, refusals)
		}
	}
	a.set(refuse(503, "shutting_down"))
	b.set(refuse(503, "shutting_down"))
	if answer, text, err := post(t, s.URL+chat, "{}"); err != nil || answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "7" || !strings.Contains(text, "shutting_down") {
		t.Errorf("%v %s %v", answer, text, err)
	}
}

// TestDeath: a server that is gone gets nothing more until it is back, and no request fails for it.
func TestDeath(t *testing.T) {
	a := newBackend(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler := http.HandlerFunc(a.ServeHTTP)
	b := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
	b.Start()
	rt, s := router(t, Options{Retries: 1}, a, &backend{Server: b})
	send := func() {
		t.Helper()
		for range 6 {
			if answer, text, err := post(t, s.URL+chat, "{}"); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%v %s", err, text)
			}
		}
	}
	send()
	b.CloseClientConnections()
	b.Close()
	send()
	wait(t, "the replica is away", func() bool { return rt.list()[1].Status == "away" })
	if l, err = net.Listen("tcp", l.Addr().String()); err != nil {
		t.Skip("another program has taken the port:", err)
	}
	again := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
	again.Start()
	defer again.Close()
	wait(t, "the replica is back", func() bool { return rt.list()[1].Status == "ready" })
	send()
}

// TestSilent: a replica that stops answering without closing anything (a cut link) is given up after some checks: what it had not begun goes to another, what it had begun
// ends with an error.
func TestSilent(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	var silent atomic.Bool
	link := newLink(t, a.Listener.Addr().String(), &silent)
	dead := &backend{Server: &httptest.Server{URL: "http://" + link}}
	a.set(func(w http.ResponseWriter, r *http.Request) {
		stream(w, "text/event-stream", "data: {\"bad\":1}\n\n")
		<-r.Context().Done()
	})
	b.set(func(w http.ResponseWriter, r *http.Request) { stream(w, "text/event-stream", "data: {\"good\":1}\n\n") })
	_, s := router(t, Options{Retries: 1}, dead, b)
	begun, waiting := make(chan string, 1), make(chan string, 2)
	go func() { _, text, _ := post(t, s.URL+chat, "{}"); begun <- text }()
	wait(t, "the first request is answered", func() bool { return a.asked.Load() == 1 })
	time.Sleep(50 * time.Millisecond)
	silent.Store(true)
	for range 2 {
		go func() { _, text, _ := post(t, s.URL+chat, "{}"); waiting <- text }()
	}
	for range 2 {
		if text := <-waiting; text != "data: {\"good\":1}\n\n" {
			t.Errorf("a request to a silent replica got %q", text)
		}
	}
	if text := <-begun; !strings.HasPrefix(text, "data: {\"bad\":1}\n\ndata: {\"error\":") {
		t.Errorf("the answer of a silent replica is %q", text)
	}
}

// newLink is the address of a link to another address, over which nothing comes once silent is set.
func newLink(t *testing.T, to string, silent *atomic.Bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	pass := func(to, from net.Conn) {
		defer to.Close()
		buf := make([]byte, 4096)
		for {
			n, err := from.Read(buf)
			for silent.Load() {
				if t.Context().Err() != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			go pass(c, d)
			go pass(d, c)
		}
	}()
	return l.Addr().String()
}

// TestStop: a router that is told to stop lets requests end; those that do not in time are cut off.
func TestStop(t *testing.T) {
	b := newBackend(t)
	next := make(chan bool)
	b.set(func(w http.ResponseWriter, r *http.Request) {
		stream(w, "text/event-stream", "data: {}\n\n")
		select {
		case <-next:
		case <-r.Context().Done():
		}
	})
	rt, _ := router(t, Options{Drain: 200 * time.Millisecond}, b)
	for _, ends := range []bool{true, false} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served, text := make(chan error, 1), make(chan error, 1)
		go func() { served <- rt.Serve(ctx, l) }()
		before := b.asked.Load()
		go func() { _, _, err := post(t, "http://"+l.Addr().String()+chat, "{}"); text <- err }()
		wait(t, "the request is being answered", func() bool { return b.asked.Load() > before })
		time.Sleep(20 * time.Millisecond)
		stop()
		if ends {
			next <- true
		}
		if err := <-served; (err == nil) != ends {
			t.Errorf("the request ends %t: %v", ends, err)
		}
		if err := <-text; (err == nil) != ends {
			t.Errorf("the request ends %t: the client got %v", ends, err)
		}
	}
}
