package zmtp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func endpoint(t *testing.T, a net.Addr) string {
	t.Helper()
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	return "tcp://127.0.0.1:" + port
}

// TestPublish: every subscriber gets all messages after its subscription, in order and whole, whatever their size; one that does not read holds up nobody.
func TestPublish(t *testing.T) {
	p, err := NewPublisher("tcp://0.0.0.0:0", 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	idle, err := net.Dial("tcp", strings.TrimPrefix(endpoint(t, p.Addr()), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	const readers, messages = 3, 200
	var got [readers]chan [][]byte
	for i := range got {
		got[i] = make(chan [][]byte, messages)
		go Subscribe(ctx, endpoint(t, p.Addr()), func() {}, func(frames [][]byte) { got[i] <- frames })
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n := 0
		p.mu.Lock()
		for s := range p.subs {
			if s.wants([]byte("topic")) {
				n++
			}
		}
		p.mu.Unlock()
		if n == readers {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no subscriptions")
		}
	}
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i*i) }
	for i := range messages {
		p.Send([]byte("topic"), []byte(fmt.Sprint(i)), body(i))
	}
	for r := range got {
		for i := range messages {
			select {
			case frames := <-got[r]:
				if len(frames) != 3 || string(frames[1]) != fmt.Sprint(i) || !bytes.Equal(frames[2], body(i)) {
					t.Fatalf("message %d of reader %d: %.40q", i, r, frames)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("message %d of reader %d does not come", i, r)
			}
		}
	}
}

// TestConnects: a publisher whose endpoint names a host connects to it, also when that comes later.
func TestConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := NewPublisher(endpoint(t, l.Addr()), 10)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	raw, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := handshake(raw, "SUB")
	if err != nil || c.peer != "PUB" {
		t.Fatal(c, err)
	}
	defer c.Close()
	if err := c.send([]byte("\x01a")); err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 1000 {
			p.Send([]byte("b"), []byte("no"))
			p.Send([]byte("ab"), []byte("yes"))
			time.Sleep(time.Millisecond)
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if frames, err := c.receive(); err != nil || string(frames[1]) != "yes" {
		t.Errorf("%q %v", frames, err)
	}
}

// TestReply: a request gets all its answers, each after an empty frame.
func TestReply(t *testing.T) {
	r, err := NewReplier("tcp://*:0", func(frames [][]byte, send func(...[]byte) error) {
		for i := range 3 {
			_ = send(frames[0], []byte{byte(i)})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	raw, err := net.Dial("tcp", strings.TrimPrefix(endpoint(t, r.Addr()), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := handshake(raw, "DEALER")
	if err != nil || c.peer != "ROUTER" {
		t.Fatal(c, err)
	}
	defer c.Close()
	if err := c.send(nil, []byte("ask")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	for i := range 3 {
		if frames, err := c.receive(); err != nil || len(frames) != 3 || len(frames[0]) != 0 || string(frames[1]) != "ask" || frames[2][0] != byte(i) {
			t.Errorf("answer %d: %q %v", i, frames, err)
		}
	}
}

// pipe is a connection that has sent these bytes and no more.
type pipe struct {
	net.Conn
	io.Reader
}

func (p pipe) Read(b []byte) (int, error)       { return p.Reader.Read(b) }
func (p pipe) Write(b []byte) (int, error)      { return len(b), nil }
func (p pipe) Close() error                     { return nil }
func (p pipe) SetDeadline(time.Time) error      { return nil }
func (p pipe) SetWriteDeadline(time.Time) error { return nil }
func (p pipe) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// FuzzReceive: any bytes are messages or an error, and cut anywhere never another message.
func FuzzReceive(f *testing.F) {
	ready := property([]byte("\x05READY"), "Socket-Type", "SUB")
	whole := append(greeting(), append([]byte{command, byte(len(ready))}, ready...)...)
	f.Add(append(whole, "\x01\x01a\x00\x02bc\x04\x07\x04PING\x00\x00\x00\x01\x01"...))
	f.Add(append(whole, "\x02\x00\x00\x00\x00\x00\x00\x00\x03abc\x02\xff\xff\xff\xff\xff\xff\xff\xff"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		all := func(b []byte) (got []string) {
			c, err := handshake(pipe{Reader: bytes.NewReader(b)}, "PUB")
			for err == nil {
				var frames [][]byte
				if frames, err = c.receive(); err == nil {
					got = append(got, fmt.Sprintf("%q", frames))
				}
			}
			return got
		}
		got := all(b)
		for i, m := range all(b[:len(b)/2]) {
			if i >= len(got) || m != got[i] {
				t.Errorf("half of %q has the message %s", b, m)
			}
		}
	})
}

// TestEndpoints: what is an endpoint, and whether it is one to listen on.
func TestEndpoints(t *testing.T) {
	for text, want := range map[string]string{"tcp://*:5557": ":5557 true", "tcp://0.0.0.0:1": "0.0.0.0:1 true", "tcp://[::]:1": "[::]:1 true", "tcp://a:5": "a:5 false", "tcp://[::1]:5": "[::1]:5 false"} {
		if address, every, err := Address(text); err != nil || fmt.Sprint(address, " ", every) != want {
			t.Errorf("%s: %s %t %v", text, address, every, err)
		}
	}
	for _, text := range []string{"", "ipc:///x", "tcp://a", "a:5", "tcp://a:"} {
		if _, _, err := Address(text); err == nil {
			t.Errorf("%q is an endpoint", text)
		}
	}
}
