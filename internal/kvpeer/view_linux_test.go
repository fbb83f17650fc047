package kvpeer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/internal/hostmem"
)

// mapped allocates memory that other processes can map.
func mapped(t testing.TB) func(int) []byte {
	t.Helper()
	return func(n int) []byte {
		b, err := hostmem.Alloc(int64(n))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := hostmem.Free(b); err != nil {
				t.Error(err)
			}
		})
		return b
	}
}

// idle is the links that a peer keeps, once there are so many.
func idle(t *testing.T, s *source, held int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		now := s.held
		s.mu.Unlock()
		if now == held {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d pages are held; %d should be", now, held)
		}
	}
}

// TestView: where the pages of who gives them can be mapped they come out of its memory, as many as there are with one message, and stay as they are until they have been copied; where its
// end comes before that, nothing of them is used. The memory is mapped once.
func TestView(t *testing.T) {
	const size = 40_000
	s := newSourceIn(8, size, mapped(t))
	x := serve(t, s)
	p := New(x.Address(), secret, kv.Key{7})
	defer p.Close()
	var keys []kv.Key
	for i := range byte(8) {
		keys = append(keys, kv.Key{i})
	}
	got := make([][]byte, 8)
	into := func(from int, then func()) func(int, []offload.Part) bool {
		return func(i int, parts []offload.Part) bool {
			b := make([]byte, parts[0].Bytes)
			got[from+i], parts[0].Pieces = b, [][]byte{b[:7], b[7:]}
			if then != nil {
				then()
			}
			return true
		}
	}
	s.whole.Store(5)
	if n, err := p.Prompt(kv.Key{5}).Read(keys, still, into(0, nil)); n != 5 || err != nil {
		t.Fatalf("of 8 keys, of which 5 are there: %d, %v", n, err)
	}
	s.whole.Store(0)
	if n, err := p.Prompt(kv.Key{5}).Read(keys[5:], still, into(5, nil)); n != 3 || err != nil {
		t.Fatalf("of 3 keys: %d, %v", n, err)
	}
	for i := range got {
		if !bytes.Equal(got[i], s.pages[i]) {
			t.Errorf("page %d came as something else", i)
		}
	}
	idle(t, s, 0)
	second, err := p.dial()
	if err != nil {
		t.Fatal(err)
	}
	if first := p.idle[0]; first.view == nil || first.view != second.view || first.view.uses != 2 || len(p.views) != 1 {
		t.Error("pages have not come out of the other side's memory, or it is mapped twice")
	}
	p.end(second)
	if n, err := p.Prompt(kv.Key{5}).Read(append(keys, kv.Key{99}), still, into(0, nil)); n != 8 || err != nil {
		t.Errorf("before a key that is nowhere: %d, %v", n, err)
	}

	calls := 0
	n, err := p.Prompt(kv.Key{5}).Read(keys, still, into(0, func() {
		if calls++; calls == 3 {
			idle(t, s, 8)
			x.mu.Lock()
			for conn := range x.conns {
				conn.Close()
			}
			x.mu.Unlock()
			idle(t, s, 0)
		}
	}))
	if n != 0 || err == nil {
		t.Errorf("a server that gave the pages up while they were copied: %d are used, %v", n, err)
	}
	if len(p.views) != 0 {
		t.Errorf("%d views are left of connections that have ended", len(p.views))
	}
	if n, err := p.Prompt(kv.Key{5}).Read(keys, still, func(i int, parts []offload.Part) bool { return i < 2 && into(0, nil)(i, parts) }); n != 2 || err == nil {
		t.Errorf("room for 2 of 8 keys: %d, %v", n, err)
	}
}

// TestPlaces: places that the other side's memory does not have, or that are not as long as the part, are refused; so is a file that could become smaller while it is read.
func TestPlaces(t *testing.T) {
	mapped(t)(100)
	f, err := hostmem.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := hostmem.Map(f)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := f.WriteAt([]byte{1}, 0); err == nil {
		t.Error("another process could write")
	}
	info, _ := f.Stat()
	for _, c := range []struct {
		at, n, bytes int64
		ok           bool
	}{{0, 100, 100, true}, {info.Size() - 100, 100, 100, true}, {info.Size() - 99, 100, 100, false}, {-1, 100, 100, false}, {1 << 62, 100, 100, false}, {0, 100, 99, false}, {0, 100, 101, false}, {0, 1<<32 - 1, 1<<32 - 1, false}} {
		var b []byte
		b = binary.LittleEndian.AppendUint64(b, uint64(c.at))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.n))
		l := &link{r: bufio.NewReader(bytes.NewReader(b)), view: &view{View: m}}
		if at, err := l.readPlaces(nil, 1, c.bytes); (err == nil) != c.ok {
			t.Errorf("%d bytes at %d of a part of %d: %v, %v", c.n, c.at, c.bytes, at, err)
		}
	}
	l := &link{r: bufio.NewReader(bytes.NewReader(make([]byte, placeLen)))}
	if _, err := l.readPlaces(nil, 1, 0); err == nil {
		t.Error("places of a memory that is not mapped are taken")
	}
	plain, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if v, err := hostmem.Map(plain); err == nil {
		t.Error("a file that can become smaller is mapped", v)
	}
}

// TestBesideStrangers: who connects to the Unix socket and does not know the secret gets no file.
func TestBesideStrangers(t *testing.T) {
	s := newSourceIn(1, 40_000, mapped(t))
	x := serve(t, s)
	conn, err := net.Dial("unix", x.token.socket())
	if err != nil {
		t.Fatal(err)
	}
	if err := call(conn, []byte("another secret of sixteen"), kv.Key{7}); err == nil {
		t.Error("another secret is let in")
	}
	rights := make([]byte, 64)
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, n, _, _, _ := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 64), rights); n > 0 {
		t.Error("a stranger is handed the memory")
	}
	conn.Close()
}
