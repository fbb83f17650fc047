package kvpeer

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
)

// source has a page under each key whose first byte is less than pages.
type source struct {
	pages [][]byte
	waits atomic.Int32 // answers that say that the prompt is being computed
	whole atomic.Int32 // how many of the pages are there; 0: all

	mu       sync.Mutex
	held     int
	released []kv.Key
}

func (s *source) Await(key, _ kv.Key, _ time.Duration, _ <-chan struct{}) ([]offload.Part, func(), bool) {
	if s.waits.Add(-1) >= 0 {
		return nil, func() {}, true
	}
	if n := int(s.whole.Load()); int(key[0]) >= len(s.pages) || n > 0 && int(key[0]) >= n {
		return nil, func() {}, false
	}
	s.hold(1)
	b := s.pages[key[0]]
	return []offload.Part{{Group: 1, Bytes: int64(len(b)), Pieces: [][]byte{b[:len(b)/3], b[len(b)/3:]}}}, func() { s.hold(-1) }, false
}

func (s *source) hold(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held += n
}

func (s *source) Release(lease kv.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = append(s.released, lease)
}

func newSource(n, size int) *source {
	return newSourceIn(n, size, func(n int) []byte { return make([]byte, n) })
}

func newSourceIn(n, size int, alloc func(int) []byte) *source {
	s := &source{}
	for range n {
		b := alloc(size)
		_, _ = rand.Read(b)
		s.pages = append(s.pages, b)
	}
	return s
}

var secret = []byte("sixteen bytes or more")

func serve(t testing.TB, s *source) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := Serve(l, secret, kv.Key{7}, s, func(error) {})
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// tiredListener gives an error before its first connection, as one does where too many files are open.
type tiredListener struct {
	net.Listener
	once sync.Once
}

func (l *tiredListener) Accept() (conn net.Conn, err error) {
	l.once.Do(func() { err = syscall.EMFILE })
	if err != nil {
		return nil, err
	}
	return l.Listener.Accept()
}

// TestAcceptFails: a server that could not take a connection takes the next.
func TestAcceptFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	x := Serve(&tiredListener{Listener: l}, secret, kv.Key{7}, newSource(1, 100), func(err error) { said <- err })
	defer x.Close()
	p := New(x.Address(), secret, kv.Key{7})
	defer p.Close()
	var b []byte
	if ok, err := readOne(p, kv.Key{0}, still, into(&b)); !ok || err != nil {
		t.Errorf("behind a listener's error: %t, %v", ok, err)
	}
	if err := <-said; !errors.Is(err, syscall.EMFILE) {
		t.Errorf("the log is told %v", err)
	}
}

// still has a peer go on computing.
func still() bool { return true }

// readOne reads one key.
func readOne(p *Peer, key kv.Key, waiting func() bool, into func([]offload.Part) bool) (bool, error) {
	n, err := p.Prompt(kv.Key{5}).Read([]kv.Key{key}, waiting, func(_ int, parts []offload.Part) bool { return into(parts) })
	return n == 1, err
}

// into reads a page to a buffer, in other pieces than it was sent in.
func into(b *[]byte) func([]offload.Part) bool {
	return func(p []offload.Part) bool {
		*b = make([]byte, p[0].Bytes)
		p[0].Pieces = [][]byte{(*b)[:10], (*b)[10:]}
		return len(p) == 1 && p[0].Group == 1
	}
}

// TestPeer: pages come as they are, those that are nowhere do not, connections are used again after the server has closed them, and leases are given back.
func TestPeer(t *testing.T) {
	s := newSource(3, 1000)
	x := serve(t, s)
	p := New(x.Address(), secret, kv.Key{7})
	defer p.Close()
	read := func(i byte) ([]byte, bool) {
		t.Helper()
		var b []byte
		ok, err := readOne(p, kv.Key{i}, still, into(&b))
		if err != nil {
			t.Fatal(err)
		}
		return b, ok
	}
	for i := range byte(3) {
		if b, ok := read(i); !ok || !bytes.Equal(b, s.pages[i]) {
			t.Errorf("page %d came as something else (%t)", i, ok)
		}
	}
	if _, ok := read(9); ok {
		t.Error("a page that is nowhere came")
	}
	s.waits.Store(3)
	waited := 0
	var b []byte
	if ok, err := readOne(p, kv.Key{2}, func() bool { waited++; return true }, into(&b)); !ok || err != nil || waited != 3 || !bytes.Equal(b, s.pages[2]) {
		t.Errorf("while the prompt is computed: %t, %v, told so %d times", ok, err, waited)
	}
	s.waits.Store(3)
	if ok, err := readOne(p, kv.Key{2}, func() bool { return false }, into(&b)); ok || err == nil {
		t.Errorf("nobody waits: %t, %v", ok, err)
	}
	s.waits.Store(0)
	x.mu.Lock()
	for conn := range x.conns {
		conn.Close()
	}
	x.mu.Unlock()
	if b, ok := read(1); !ok || !bytes.Equal(b, s.pages[1]) {
		t.Error("after the kept connection was closed a page came as something else")
	}
	p.Prompt(kv.Key{5}).Release()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		done := len(s.released) == 1 && s.released[0] == kv.Key{5} && s.held == 0
		s.mu.Unlock()
		if done {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("leases %v were given back, %d pages are held", s.released, s.held)
		}
	}
}

// TestStrangers: who has another secret, another model or another protocol gets no page, is told why where it is one of ours, and keeps nobody else waiting.
func TestStrangers(t *testing.T) {
	x := serve(t, newSource(1, 100))
	for what, p := range map[string]struct {
		peer *Peer
		says string
	}{"secret": {New(x.Address(), []byte("another secret of sixteen"), kv.Key{7}), "another secret"}, "model": {New(x.Address(), secret, kv.Key{8}), "another model"}} {
		var b []byte
		if ok, err := readOne(p.peer, kv.Key{0}, still, into(&b)); ok || err == nil || !strings.Contains(err.Error(), p.says) {
			t.Errorf("another %s: %t, %v", what, ok, err)
		}
	}
	for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("x", 1000), protocol, protocol + strings.Repeat("y", len(kv.Key{})+32) + strings.Repeat("z", 32)} {
		conn, err := net.Dial("tcp", x.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	p := New(x.Address(), secret, kv.Key{7})
	defer p.Close()
	var b []byte
	if ok, err := readOne(p, kv.Key{0}, still, into(&b)); !ok || err != nil {
		t.Errorf("beside strangers: %t, %v", ok, err)
	}
}

// TestShared: between processes of one host large pages come through shared memory, as they are, and small ones over the connection; nothing is left of its name; where the server ends in the
// middle of a page who waits is told at once.
func TestShared(t *testing.T) {
	before := sharedNames(t)
	s := newSource(8, leastShared+1234)
	s.pages[3], s.pages[4], s.pages[5] = s.pages[3][:1000], bytes.Repeat(s.pages[4], 40), bytes.Repeat(s.pages[5], 100)
	x := serve(t, s)
	p := New(x.Address(), secret, kv.Key{7})
	defer p.Close()
	for i := range byte(8) {
		var b []byte
		if ok, err := readOne(p, kv.Key{i}, still, into(&b)); !ok || err != nil || !bytes.Equal(b, s.pages[i]) {
			t.Fatalf("page %d: %t, %v", i, ok, err)
		}
	}
	if len(p.idle) != 1 || runtime.GOOS == "linux" && p.idle[0].memory == nil {
		t.Error("pages have not come through shared memory")
	}
	if after := sharedNames(t); len(after) > len(before) {
		t.Errorf("names are left: %v", after)
	}
	s.pages[1] = make([]byte, 4<<20)
	began := time.Now()
	ok, err := readOne(p, kv.Key{1}, still, func(parts []offload.Part) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		for conn := range x.conns {
			conn.Close()
		}
		b := make([]byte, parts[0].Bytes)
		parts[0].Pieces = [][]byte{b}
		return true
	})
	if ok || err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("a server that ends: %t, %v after %v", ok, err, time.Since(began))
	}
	p.near = func(net.Conn) bool { return true }
	for _, name := range []string{"", "../x", "ridge-x", "passwd"} {
		l, err := p.dial()
		if err != nil {
			t.Fatal(err)
		}
		var key kv.Key
		copy(key[:], name)
		_ = l.memory.Close()
		if l.memory = nil; l.ask(shareMemory, kv.Key{}, kv.Key{}, key) == nil { // a second piece of memory is none
			if said, err := l.r.ReadByte(); err == nil {
				t.Errorf("memory of the name %q: %d", name, said)
			}
		}
		l.Close()
	}
}

func sharedNames(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("/dev/shm/ridge-*")
	if err != nil {
		t.Fatal(err)
	}
	return names
}
