package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	maxHeader = 1 << 20 // bytes of an answer's header
	writeTime = 30 * time.Second
)

// conn is a connection to the server.
type conn struct {
	net.Conn
	limit io.LimitedReader
	r     *bufio.Reader
	w     *bufio.Writer
	since time.Time // it was used
	used  bool
}

func newConn(raw net.Conn) *conn {
	c := &conn{Conn: raw}
	c.limit.R = raw
	c.r, c.w = bufio.NewReaderSize(&c.limit, 16<<10), bufio.NewWriterSize(raw, 8<<10)
	return c
}

// Request is what is sent.
type Request struct {
	Method string
	Path   string      // with the query
	Header http.Header // sent as it is, but for what belongs to a connection
	Body   []byte
	Set    [][2]string // headers in place of those of the same name
}

// Response is an answer, whose body is still coming. It must be closed.
type Response struct {
	*http.Response
	pool  *Pool
	conn  *conn
	stop  func() bool
	ended bool // the body was read to its end
}

// Do sends a request and waits for the header of the answer. A connection that was kept, and that the server has closed since, is replaced by
// a new one. When ctx is done the connection is closed, now or while the body is read.
func (p *Pool) Do(ctx context.Context, q *Request) (*Response, error) {
	for fresh := false; ; fresh = true {
		c, err := p.get(ctx, fresh)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		r, err := p.exchange(c, q)
		if err == nil {
			r.stop = stop
			return r, nil
		}
		stop()
		p.put(c, false)
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if !c.used || fresh {
			return nil, err
		}
	}
}

// exchange sends the request and reads the header of the answer.
func (p *Pool) exchange(c *conn, q *Request) (*Response, error) {
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	p.write(c.w, q)
	if err := c.w.Flush(); err != nil {
		return nil, fmt.Errorf("upstream: sending to %s: %w", p.address, err)
	}
	for {
		c.limit.N = maxHeader
		r, err := http.ReadResponse(c.r, &http.Request{Method: q.Method})
		if err != nil {
			if c.limit.N <= 0 {
				err = fmt.Errorf("the header is larger than %d bytes", maxHeader)
			} else if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("upstream: the answer of %s: %w", p.address, err)
		}
		if r.StatusCode >= 200 {
			c.limit.N = math.MaxInt64
			return &Response{Response: r, pool: p, conn: c}, nil
		}
	}
}

// write writes the request to a buffer, whose error is seen when it is flushed.
func (p *Pool) write(w *bufio.Writer, q *Request) {
	w.WriteString(q.Method)
	w.WriteByte(' ')
	w.WriteString(p.base)
	w.WriteString(q.Path)
	w.WriteString(" HTTP/1.1\r\nHost: ")
	w.WriteString(p.host)
	w.WriteString("\r\n")
	for name, values := range q.Header {
		if OfConnection(name) || name == "Host" || q.sets(name) {
			continue
		}
		for _, v := range values {
			writeField(w, name, v)
		}
	}
	for _, f := range q.Set {
		if f[1] != "" {
			writeField(w, f[0], f[1])
		}
	}
	if len(q.Body) > 0 || q.Method == http.MethodPost {
		w.WriteString("Content-Length: ")
		var digits [20]byte
		w.Write(strconv.AppendInt(digits[:0], int64(len(q.Body)), 10))
		w.WriteString("\r\n")
	}
	w.WriteString("\r\n")
	w.Write(q.Body)
}

func writeField(w *bufio.Writer, name, value string) {
	w.WriteString(name)
	w.WriteString(": ")
	w.WriteString(value)
	w.WriteString("\r\n")
}

func (q *Request) sets(name string) bool {
	for _, f := range q.Set {
		if f[0] == name {
			return true
		}
	}
	return false
}

// OfConnection reports whether a header says something of a connection and its framing, and not of the message (RFC 9110, section 7.6.1).
func OfConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect":
		return true
	}
	return false
}

// Read reads what has come of the body, at least a byte. io.EOF is its end, and any other error that it is not whole.
func (r *Response) Read(b []byte) (int, error) {
	n, err := r.Body.Read(b)
	r.ended = r.ended || err == io.EOF
	return n, err
}

// Close ends the answer. The connection is kept if all of the body was read.
func (r *Response) Close() {
	alive := r.stop()
	r.pool.put(r.conn, alive && r.ended && !r.Response.Close && r.conn.r.Buffered() == 0)
}
