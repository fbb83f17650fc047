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

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
)

// Peer is another server as a store of pages that are only read. Any number of goroutines may read, each over a connection of its own, which is kept.
type Peer struct {
	address string
	secret  []byte
	seed    kv.Key

	mu     sync.Mutex
	idle   []*link
	closed bool
}

var _ offload.Store = (*Peer)(nil)

type link struct {
	net.Conn
	r *bufio.Reader
}

const (
	dialTime = 3 * time.Second
	keptIdle = 16
	// Patience is how long a peer may wait for a page to be computed.
	Patience = 2 * time.Second
)

// New is the server at an address.
func New(address string, secret []byte, seed kv.Key) *Peer {
	return &Peer{address: address, secret: secret, seed: seed}
}

// Name implements offload.Store.
func (p *Peer) Name() string { return "peer " + p.address }

// Has implements offload.Store: the peer is asked when it is read.
func (p *Peer) Has(kv.Key) bool { return true }

// Write implements offload.Store; nothing is written to peers.
func (p *Peer) Write(kv.Key, []offload.Part) (int64, error) {
	return 0, errors.New("kvpeer: pages are not written to a peer")
}

// Read implements offload.Store.
func (p *Peer) Read(key kv.Key, into func(parts []offload.Part) bool) (bool, error) {
	l, kept, err := p.take()
	if err != nil {
		return false, fmt.Errorf("kvpeer: %s: %w", p.address, err)
	}
	ok, err := l.read(key, into)
	if err != nil && kept && errors.Is(err, errBegin) { // it was closed while nobody looked
		_ = l.Close() // it is of no use
		if l, err = p.dial(); err == nil {
			ok, err = l.read(key, into)
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

// read asks for a key.
func (l *link) read(key kv.Key, into func(parts []offload.Part) bool) (bool, error) {
	request := append([]byte{wantKey}, key[:]...)
	request = binary.LittleEndian.AppendUint32(request, uint32(Patience.Milliseconds()))
	if err := l.SetDeadline(time.Now().Add(Patience + stalled)); err != nil {
		return false, err
	}
	if _, err := l.Write(request); err != nil {
		return false, fmt.Errorf("%w: %w", errBegin, err)
	}
	n, err := l.r.ReadByte()
	if err != nil {
		return false, fmt.Errorf("%w: %w", errBegin, err)
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
	for _, p := range parts {
		for _, piece := range p.Pieces {
			if _, err := io.ReadFull(l.r, piece); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// Release tells the peer that a lease is over.
func (p *Peer) Release(lease kv.Key) {
	l, _, err := p.take()
	if err != nil {
		return // it ends by itself
	}
	request := append(append([]byte{dropLease}, lease[:]...), 0, 0, 0, 0)
	if _, err := l.Write(request); err != nil {
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
	return &link{conn, bufio.NewReaderSize(conn, 1<<16)}, nil
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

// Close implements offload.Store.
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
