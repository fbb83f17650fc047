// Package upstream sends HTTP/1.1 requests to one server over connections that it keeps. A connection is used by the goroutine of its request
// alone, without the two that net/http's Transport has for each, and what comes is read as it comes.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

const (
	dialTime = 5 * time.Second
	idleTime = 30 * time.Second // that a connection is kept for another request
	maxIdle  = 1024             // connections
)

// Pool is the connections to one server. Goroutines may use it at the same time.
type Pool struct {
	address string // host:port
	host    string // as the Host header has it
	base    string // path before that of requests
	secure  *tls.Config

	mu     sync.Mutex
	idle   []*conn // the latest used last
	active map[*conn]struct{}
	closed bool
}

// New makes the pool of a server's URL, http:// or https://. Nothing is connected yet.
func New(server string) (*Pool, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("upstream: %q is no address of a server; http://HOST:PORT is", server)
	}
	p := &Pool{address: u.Host, host: u.Host, base: u.EscapedPath(), active: map[*conn]struct{}{}}
	for len(p.base) > 0 && p.base[len(p.base)-1] == '/' {
		p.base = p.base[:len(p.base)-1]
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		p.secure = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	if u.Port() == "" {
		p.address = net.JoinHostPort(u.Hostname(), port)
	}
	return p, nil
}

// errClosed is of a pool whose server was removed.
var errClosed = errors.New("upstream: the server was removed")

// DialError is that no connection could be made: nothing was sent.
type DialError struct{ Err error }

// Error implements error.
func (e *DialError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *DialError) Unwrap() error { return e.Err }

// get takes a connection that is kept, or makes one.
func (p *Pool) get(ctx context.Context, fresh bool) (*conn, error) {
	p.mu.Lock()
	for !fresh && len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if time.Since(c.since) > idleTime {
			c.Close()
			continue
		}
		p.active[c] = struct{}{}
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	d := net.Dialer{Timeout: dialTime}
	raw, err := d.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, &DialError{err}
	}
	if p.secure != nil {
		s := tls.Client(raw, p.secure)
		limit, cancel := context.WithTimeout(ctx, dialTime)
		err := s.HandshakeContext(limit)
		cancel()
		if err != nil {
			raw.Close()
			return nil, &DialError{err}
		}
		raw = s
	}
	c := newConn(raw)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		raw.Close()
		return nil, &DialError{errClosed}
	}
	p.active[c] = struct{}{}
	return c, nil
}

// put takes a connection back, to be kept if it can have another request.
func (p *Pool) put(c *conn, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.active, c)
	if !keep || p.closed || len(p.idle) >= maxIdle {
		c.Close()
		return
	}
	c.since, c.used = time.Now(), true
	p.idle = append(p.idle, c)
}

// Cut breaks off all requests under way: the server is gone, and its connections may not know.
func (p *Pool) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.active {
		c.Close()
	}
	for _, c := range p.idle {
		c.Close()
	}
	p.idle = nil
}

// Close breaks off all requests, and those that come.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
}
