package kvpeer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/comm/shm"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
)

// Peer is another server, of whose host memory pages are read. Any number of goroutines may read, each over a connection of its own, which is kept.
type Peer struct {
	address string
	secret  []byte
	seed    kv.Key
	near    func(net.Conn) bool // pages may go through shared memory

	mu     sync.Mutex
	idle   []*link
	closed bool
}

// Prompt is what a peer computes, or has computed, under the name of a lease.
type Prompt struct {
	*Peer
	lease kv.Key
}

var _ offload.Peer = Prompt{}

// Prompt is the peer's prompt of a lease.
func (p *Peer) Prompt(lease kv.Key) Prompt { return Prompt{p, lease} }

type link struct {
	net.Conn
	r      *bufio.Reader
	memory *shm.Mapped // that pages come through; nil: they come over the connection
}

const (
	dialTime = 3 * time.Second
	keptIdle = 16
	// begun is how long a peer may wait for a prompt to be begun.
	begun = 2 * time.Second
)

// New is the server at an address.
func New(address string, secret []byte, seed kv.Key) *Peer {
	return &Peer{address: address, secret: secret, seed: seed, near: sameHost}
}

// Read implements offload.Peer.
func (p Prompt) Read(key kv.Key, waiting func() bool, into func(parts []offload.Part) bool) (bool, error) {
	l, kept, err := p.take()
	if err != nil {
		return false, fmt.Errorf("kvpeer: %s: %w", p.address, err)
	}
	ok, err := l.read(p.lease, key, waiting, into)
	if err != nil && kept && errors.Is(err, errBegin) { // it was closed while nobody looked
		_ = l.Close() // it is of no use
		if l, err = p.dial(); err == nil {
			ok, err = l.read(p.lease, key, waiting, into)
		}
	}
	if err != nil {
		if l != nil {
			_ = l.Close() // what else comes over it is not known
		}
		return false, fmt.Errorf("kvpeer: %s: %w", p.address, err)
	}
	p.put(l)
	return ok, nil
}

var errBegin = errors.New("the connection was lost before the answer")

var errEnough = errors.New("nobody waits for it any more")

// read asks for a key.
func (l *link) read(lease, key kv.Key, waiting func() bool, into func(parts []offload.Part) bool) (bool, error) {
	if err := l.ask(wantKey, lease, key); err != nil {
		return false, fmt.Errorf("%w: %w", errBegin, err)
	}
	n, err := l.r.ReadByte()
	if err != nil {
		return false, fmt.Errorf("%w: %w", errBegin, err)
	}
	for n == computing {
		if !waiting() {
			return false, errEnough
		}
		if err := l.SetDeadline(time.Now().Add(stalled)); err != nil {
			return false, err
		}
		if n, err = l.r.ReadByte(); err != nil {
			return false, err
		}
	}
	if n == 0 {
		return false, nil
	}
	if n > kv.MaxGroups {
		return false, fmt.Errorf("a page of %d cache groups; %d are possible", n, kv.MaxGroups)
	}
	head := make([]byte, int(n)*12)
	if _, err := io.ReadFull(l.r, head); err != nil {
		return false, err
	}
	parts := make([]offload.Part, n)
	for i := range parts {
		parts[i] = offload.Part{Group: int(binary.LittleEndian.Uint32(head[12*i:])), Bytes: int64(binary.LittleEndian.Uint64(head[12*i+4:]))}
	}
	if !into(parts) {
		return false, errors.New("its pages have no room here, or are of another size")
	}
	if err := l.take(parts); err != nil {
		return false, err
	}
	return true, nil
}

// ask sends a message.
func (l *link) ask(what byte, lease, key kv.Key) error {
	if err := l.SetDeadline(time.Now().Add(begun + stalled)); err != nil {
		return err
	}
	request := make([]byte, 0, requestLen)
	request = append(append(append(request, what), lease[:]...), key[:]...)
	_, err := l.Write(binary.LittleEndian.AppendUint32(request, uint32(begun.Milliseconds())))
	return err
}

// Release implements offload.Peer: the peer is told that the lease is over.
func (p Prompt) Release() {
	l, _, err := p.take()
	if err != nil {
		return // it ends by itself
	}
	if err := l.ask(dropLease, p.lease, kv.Key{}); err != nil {
		_ = l.Close() // likewise
		return
	}
	p.put(l)
}

// take is a connection that nobody uses, kept or new.
func (p *Peer) take() (l *link, kept bool, err error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		l, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	p.mu.Unlock()
	if l != nil {
		return l, true, nil
	}
	l, err = p.dial()
	return l, false, err
}

func (p *Peer) dial() (*link, error) {
	conn, err := net.DialTimeout("tcp", p.address, dialTime)
	if err != nil {
		return nil, err
	}
	if err := call(conn, p.secret, p.seed); err != nil {
		_ = conn.Close() // the error says enough
		return nil, err
	}
	l := &link{Conn: conn, r: bufio.NewReaderSize(conn, 1<<16)}
	if p.near(conn) {
		if err := l.share(); err != nil {
			_ = l.Close() // likewise
			return nil, err
		}
	}
	return l, nil
}

func (p *Peer) put(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= keptIdle {
		_ = l.Close() // others are kept
		return
	}
	p.idle = append(p.idle, l)
}

// Close ends the connections that nobody uses.
func (p *Peer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, l := range p.idle {
		_ = l.Close() // nothing is under way
	}
	p.idle = nil
	return nil
}
