package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
)

// pipes is a listener whose connections are pipes: nothing is buffered between the two ends, so an end that does not read or
// write blocks the other at once, and a test's clock knows when all wait.
type pipes struct {
	incoming chan net.Conn
	closed   chan struct{}
}

func newPipes() *pipes {
	return &pipes{make(chan net.Conn), make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.incoming:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.incoming <- there
	return here
}

// slowly runs a test in which time passes when all goroutines wait, so that minutes take none.
func slowly(t *testing.T, test func(t *testing.T, m *ridge.Model, p *pipes)) {
	leaks.Check(t)
	synctest.Test(t, func(t *testing.T) {
		m, err := ridge.Load("", ridge.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		p := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		returned := make(chan error)
		go func() { returned <- server.New(m, server.Options{}).Serve(ctx, p) }()
		test(t, m, p)
		stop()
		if err := <-returned; err != nil {
			t.Error(err)
		}
		leaks.Pages(t, m)
	})
}

// hangsUp waits for the server to close a connection, whatever it says before, and returns when it did and what it said.
func hangsUp(t *testing.T, c net.Conn) (after time.Duration, said string) {
	t.Helper()
	began := time.Now()
	data, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	return time.Since(began).Round(time.Second), string(data)
}

// TestSlowWriters: a header has ten seconds to arrive and a body a minute; an idle connection is kept two minutes.
func TestSlowWriters(t *testing.T) {
	slowly(t, func(t *testing.T, m *ridge.Model, p *pipes) {
		c := p.dial()
		io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n")
		if after, _ := hangsUp(t, c); after != 10*time.Second {
			t.Errorf("half a header was given %v", after)
		}

		c = p.dial()
		io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"prompt\": ")
		if after, said := hangsUp(t, c); after != time.Minute || !strings.Contains(said, "400 Bad Request") || !strings.Contains(said, "did not arrive completely") {
			t.Errorf("half a body was given %v and %q", after, said)
		}

		c = p.dial()
		io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100\r\n\r\n{\"prompt\": ")
		if after, said := hangsUp(t, c); after != 10*time.Second || !strings.Contains(said, "403 Forbidden") {
			t.Errorf("half a body of a refused request was given %v and %q", after, said)
		}

		c = p.dial()
		io.WriteString(c, "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != 200 {
			t.Fatal(r, err)
		}
		io.Copy(io.Discard, r.Body)
		if after, _ := hangsUp(t, c); after != 2*time.Minute {
			t.Errorf("an idle connection was kept %v", after)
		}
	})
}

// TestSlowReaders: a client that does not read its stream for half a minute is disconnected and its request cancelled; others are
// answered meanwhile.
func TestSlowReaders(t *testing.T) {
	slowly(t, func(t *testing.T, m *ridge.Model, p *pipes) {
		slow := p.dial()
		const body = `{"prompt": "Once", "max_tokens": 400, "ignore_eos": true, "stream": true}`
		io.WriteString(slow, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 73\r\n\r\n"+body)
		began := time.Now()
		other := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil }}}
		defer other.CloseIdleConnections()
		r, err := other.Post("http://localhost/v1/completions", "application/json", strings.NewReader(strings.Replace(body, "true}", "false}", 1)))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(data), `"completion_tokens":400`) {
			t.Errorf("beside a slow reader: %v %s", err, data)
		}
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("beside a slow reader an answer took %v", waited)
		}
		time.Sleep(31*time.Second - time.Since(began))
		synctest.Wait()
		if s := m.Stats(); s.Running != 0 || s.PagesUsed != 0 {
			t.Errorf("the slow reader's request still holds %+v", s)
		}
		if after, _ := hangsUp(t, slow); after != 0 {
			t.Errorf("the slow reader was kept %v longer", after)
		}
	})
}
