package ridge_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// pipes is a listener whose connections are pipes: nothing is buffered between the two ends, so the clock of a bubble knows when all wait.
type pipes struct {
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once

	mu   sync.Mutex
	open []net.Conn // the clients' ends
	dead bool
}

func newPipes() *pipes { return &pipes{incoming: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.incoming:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// dial is a client's end of a new connection.
func (p *pipes) dial() (net.Conn, error) {
	here, there := net.Pipe()
	p.mu.Lock()
	p.open = append(p.open, here)
	dead := p.dead
	p.mu.Unlock()
	if dead {
		here.Close()
		return nil, net.ErrClosed
	}
	select {
	case p.incoming <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// cut ends all connections: the process is no more.
func (p *pipes) cut() {
	p.mu.Lock()
	p.dead = true
	for _, c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.Close()
}

// clients starts clients that come within some seconds.
func (l *life) clients(all *sync.WaitGroup) {
	for i := range 4 + l.rng.IntN(14) {
		rng := rand.New(rand.NewPCG(l.seed, uint64(l.lives)<<32+uint64(i)))
		all.Go(func() {
			time.Sleep(time.Duration(rng.IntN(2500)) * time.Millisecond)
			c := &simClient{life: l, rng: rng, leaves: -1}
			switch rng.IntN(8) {
			case 0, 1:
				c.batch()
			case 2:
				c.leaves = rng.IntN(600)
				c.ask(rng.IntN(len(l.calls)), true)
			case 3:
				c.leaves = rng.IntN(3000)
				c.batch()
			case 4:
				c.broken()
			default: // some requests on one connection
				n := 1 + rng.IntN(3)
				for i := range n {
					if !c.ask(rng.IntN(len(l.calls)), i == n-1) {
						break
					}
				}
			}
			if c.conn != nil {
				c.conn.Close()
			}
		})
	}
}

// simClient is a client with a connection.
type simClient struct {
	*life
	rng    *rand.Rand
	conn   net.Conn // nil: there is none yet
	from   *bufio.Reader
	leaves int // after so many bytes, sent and received; below 0: never
}

// received is what came of a request.
type received struct {
	status int
	body   string
}

// ask makes a known call and checks its answer; false when there was none.
func (c *simClient) ask(i int, last bool) bool {
	call := c.calls[i]
	a, ok := c.do(http.MethodPost, call.path, "application/json", []byte(call.body), last)
	if !ok {
		return false
	}
	c.requests.Add(1)
	if a.status != http.StatusOK {
		c.refused(call.path, a, false)
		return true
	}
	got, err := call.parts(a.body)
	want := c.alone[i]
	text, _, _ := strings.Cut(want.text, "|")
	switch {
	case err != nil:
		c.errorf("%s %s: %v in %q", call.path, call.body, err, a.body)
	case !got.failed && got.text != want.text, !strings.HasPrefix(text, got.text) && got.failed:
		c.errorf("%s %s says %q, with an error: %t; alone it says %q", call.path, call.body, got.text, got.failed, want.text)
	case got.failed && !c.excused():
		c.errorf("%s %s ends with an error that nothing explains: %q", call.path, call.body, a.body)
	}
	return true
}

// broken sends what is no JSON.
func (c *simClient) broken() {
	body := c.calls[c.rng.IntN(len(c.calls))].body
	if a, ok := c.do(http.MethodPost, "/v1/completions", "application/json", []byte(body[:c.rng.IntN(len(body))]), true); ok && a.status != http.StatusBadRequest {
		c.refused("half a body", a, false)
	}
}

// excused reports whether a fault explains an error.
func (c *simClient) excused() bool {
	return c.stopped.Err() != nil || c.disk.Dead() || c.device.fails()
}

// refused checks an answer that is an error: it is of the API's shape, and a fault or a full queue explains it.
func (c *simClient) refused(what string, a received, stores bool) {
	switch {
	case !json.Valid([]byte(a.body)):
		c.errorf("%s: %d with %q", what, a.status, a.body)
	case a.status == http.StatusTooManyRequests:
	case a.status >= 500 && (c.excused() || stores && !c.last):
	default:
		c.errorf("%s: %d with %s", what, a.status, a.body)
	}
}

// do makes a request; false when the client has left or the connection ended, which it may only at a stop or a crash.
func (c *simClient) do(method, path, kind string, body []byte, last bool) (a received, ok bool) {
	if c.conn == nil {
		conn, err := c.pipes.dial()
		if err != nil {
			return a, false // it is closed
		}
		c.conn, c.from = conn, bufio.NewReader(&reader{Conn: conn, rng: c.rng, leaves: &c.leaves})
	}
	id := fmt.Sprintf("sim-%d", c.rng.Uint64())
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Request-Id: %s\r\n", method, path, kind, len(body), id)
	if last {
		head += "Connection: close\r\n"
	}
	text := append([]byte(head+"\r\n"), body...)
	if c.leaves >= 0 && c.leaves < len(text) {
		c.conn.Write(text[:c.leaves])
		c.conn.Close()
		return a, false
	}
	if c.leaves >= 0 {
		c.leaves -= len(text)
	}
	if _, err := c.conn.Write(text); err != nil {
		return a, c.ended("sending to "+path, err)
	}
	r, err := http.ReadResponse(c.from, nil)
	if err != nil {
		return a, c.ended("reading the header of "+path, err)
	}
	all, err := io.ReadAll(r.Body)
	if err != nil {
		return a, c.ended("reading the body of "+path, err)
	}
	if got := r.Header.Get("X-Request-Id"); got != id {
		c.errorf("%s is answered with the answer of another: id %s, not %s", path, got, id)
	}
	if last || r.Close {
		if rest, err := io.ReadAll(c.from); len(rest) > 0 {
			c.errorf("behind the answer of %s come %q, %v", path, rest, err)
		}
		c.conn.Close()
		c.conn = nil
	}
	if c.disk.Dead() { // who knows whether the process has sent this
		return a, false
	}
	return received{r.StatusCode, string(all)}, true
}

// ended is the end of a connection; it is always false.
func (c *simClient) ended(doing string, err error) bool {
	if c.leaves != 0 && c.stopped.Err() == nil && !c.disk.Dead() && !c.device.fails() {
		c.errorf("%s: %v", doing, err)
	}
	return false
}

// reader reads in small pieces, sometimes slowly, and leaves after some bytes, if any are given.
type reader struct {
	net.Conn
	rng    *rand.Rand
	leaves *int // below 0: never
}

var errLeft = errors.New("the client has left")

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	if *r.leaves == 0 {
		r.Conn.Close()
		return 0, errLeft
	}
	if r.rng.IntN(20) == 0 {
		time.Sleep(time.Duration(r.rng.IntN(3000)) * time.Millisecond)
	}
	n := min(len(b), 1+r.rng.IntN(400))
	if *r.leaves > 0 {
		n = min(n, *r.leaves)
	}
	n, err := r.Conn.Read(b[:n])
	if *r.leaves > 0 {
		*r.leaves -= n
	}
	return n, err
}

// form is a form to upload a file with.
func form(boundary, name, content string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n", boundary)
	fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=%q\r\nContent-Type: application/octet-stream\r\n\r\n%s\r\n", boundary, name, content)
	fmt.Fprintf(&b, "--%s--\r\n", boundary)
	return b.Bytes()
}
