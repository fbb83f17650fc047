package zmtp

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// TestHostileSubscriber: whoever connects to a publisher takes no more of its memory than some kilobytes: by large frames, by many of a message, or by topics.
func TestHostileSubscriber(t *testing.T) {
	p, err := NewPublisher("tcp://0.0.0.0:0", 10)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	call := func() *conn {
		raw, err := net.Dial("tcp", strings.TrimPrefix(endpoint(t, p.Addr()), "tcp://"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := handshake(raw, "SUB")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ended := func(c *conn, what string) {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, _, err := c.read(); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: the connection is not ended (%v)", what, err)
		}
	}
	large := call()
	_ = large.send(bytes.Repeat([]byte{1}, 1<<20)) // it may be ended before all is sent
	ended(large, "a frame of a megabyte")
	many := call()
	part := bytes.Repeat([]byte{1}, 40<<10)
	_ = many.send(part, part, part) // likewise
	ended(many, "a message of three large frames")
	topics := call()
	for i := range 3 * maxTopics {
		if err := topics.send(fmt.Appendf([]byte{1}, "topic %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := topics.send([]byte{0, 't'}); err != nil {
		t.Fatal(err)
	}
	most := 0
	for end := time.Now().Add(10 * time.Second); most < maxTopics && time.Now().Before(end); time.Sleep(time.Millisecond) {
		p.mu.Lock()
		for s := range p.subs {
			s.mu.Lock()
			most = max(most, len(s.topics))
			s.mu.Unlock()
		}
		p.mu.Unlock()
	}
	time.Sleep(20 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subs {
		s.mu.Lock()
		most = max(most, len(s.topics))
		s.mu.Unlock()
	}
	if most != maxTopics {
		t.Errorf("a subscriber has %d topics; %d are the most", most, maxTopics)
	}
}
