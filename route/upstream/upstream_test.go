package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// get sends a request and reads all of the answer.
func get(ctx context.Context, p *Pool, q *Request) (int, string, error) {
	r, err := p.Do(ctx, q)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	var all bytes.Buffer
	buf := make([]byte, 100)
	for {
		n, err := r.Read(buf)
		all.Write(buf[:n])
		if err == io.EOF {
			return r.StatusCode, all.String(), nil
		}
		if err != nil {
			return r.StatusCode, all.String(), err
		}
	}
}

func pool(t *testing.T, url string) *Pool {
	t.Helper()
	p, err := New(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestKept: connections are used again, also after answers in chunks; one that the server has closed is replaced; headers of a connection stay behind.
func TestKept(t *testing.T) {
	from := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from[r.RemoteAddr] = true
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Te") != "" || r.Header.Get("X-One") != "1" || r.Header.Get("X-Two") != "new" || r.URL.RawQuery != "a=b" || r.URL.Path != "/base/path" {
			t.Errorf("%v %v", r.URL, r.Header)
		}
		w.Write(body)
		w.(http.Flusher).Flush()
		w.Write(body)
	}))
	defer s.Close()
	p := pool(t, s.URL+"/base/")
	q := &Request{Method: "POST", Path: "/path?a=b", Header: http.Header{"Te": {"x"}, "X-One": {"1"}, "X-Two": {"old"}}, Set: [][2]string{{"X-Two", "new"}}, Body: bytes.Repeat([]byte("body "), 5000)}
	for i := range 6 {
		status, text, err := get(t.Context(), p, q)
		if err != nil || status != 200 || text != strings.Repeat("body ", 10000) {
			t.Fatalf("%d bytes, status %d, %v", len(text), status, err)
		}
		if i == 3 {
			s.CloseClientConnections()
		}
	}
	if len(from) != 2 {
		t.Errorf("6 requests and a cut took %d connections", len(from))
	}
}

// answers is a server that sends these bytes to each connection and closes it.
func answers(t *testing.T, text string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, text)
			c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestHalf: an answer that breaks off anywhere is an error, and never looks whole.
func TestHalf(t *testing.T) {
	for _, whole := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"} {
		if _, text, err := get(t.Context(), pool(t, answers(t, whole)), &Request{Method: "GET", Path: "/"}); err != nil || text != "hello" {
			t.Errorf("%q: %q, %v", whole, text, err)
		}
		for n := range whole {
			if _, text, err := get(t.Context(), pool(t, answers(t, whole[:n])), &Request{Method: "GET", Path: "/"}); err == nil {
				t.Errorf("%q is taken for the answer %q", whole[:n], text)
			}
		}
	}
	long := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxHeader)
	if _, _, err := get(t.Context(), pool(t, answers(t, long)), &Request{Method: "GET", Path: "/"}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a header without end: %v", err)
	}
}

// TestLeave: a request whose context ends is ended at the server, before the answer and within it; a cut ends all.
func TestLeave(t *testing.T) {
	gone := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			w.Write([]byte("x"))
			w.(http.Flusher).Flush()
		}
		select {
		case <-r.Context().Done():
			gone <- nil
		case <-time.After(10 * time.Second):
			gone <- errors.New("the server does not know that the client has gone")
		}
	}))
	defer s.Close()
	p := pool(t, s.URL)
	for _, path := range []string{"/silent", "/begun"} {
		for _, end := range []string{"context", "cut"} {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				time.Sleep(30 * time.Millisecond)
				if end == "cut" {
					p.Cut()
				} else {
					cancel()
				}
			}()
			if _, _, err := get(ctx, p, &Request{Method: "GET", Path: path}); err == nil {
				t.Errorf("%s, %s: no error", path, end)
			}
			if err := <-gone; err != nil {
				t.Error(err)
			}
			cancel()
		}
	}
	if _, _, err := get(t.Context(), pool(t, "http://127.0.0.1:1"), &Request{Method: "GET", Path: "/"}); !errors.As(err, new(*DialError)) {
		t.Errorf("nobody listens: %v", err)
	}
	for _, bad := range []string{"", "127.0.0.1:80", "ftp://a", "http://", "http://a?b", "http://u:p@a"} {
		if _, err := New(bad); err == nil {
			t.Errorf("%q is taken for a server", bad)
		}
	}
}
