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
	views  []*view // of the other side's memory: more than one where it has been started anew
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
	view   *view       // of the other side's memory, where pages are copied from; nil: it cannot be seen
	memory *shm.Mapped // that pages come through then; nil: they come over the connection
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
func (p Prompt) Read(keys []kv.Key, waiting func() bool, into func(i int, parts []offload.Part) bool) (int, error) {
	l, kept, err := p.take()
	if err != nil {
		return 0, fmt.Errorf("kvpeer: %s: %w", p.address, err)
	}
	n, err := l.read(p.lease, keys, waiting, into)
	if err != nil && kept && errors.Is(err, errBegin) { // it was closed while nobody looked
		p.end(l)
		if l, err = p.dial(); err == nil {
			n, err = l.read(p.lease, keys, waiting, into)
		}
	}
	if err != nil {
		if l != nil {
			p.end(l) // what else comes over it is not known
		}
		return n, fmt.Errorf("kvpeer: %s: %w", p.address, err)
	}
	p.put(l)
	return n, nil
}

var (
	errBegin  = errors.New("the connection was lost before the answer")
	errEnough = errors.New("nobody waits for it any more")
	errRoom   = errors.New("its pages have no room here, or are of another size")
)

// read asks for keys, and takes what comes of them.
func (l *link) read(lease kv.Key, keys []kv.Key, waiting func() bool, into func(i int, parts []offload.Part) bool) (n int, err error) {
	if l.memory != nil { // it has room for one
		keys = keys[:1]
	}
	keys = keys[:min(len(keys), mostKeys)]
	if err := l.ask(wantKeys, lease, keys...); err != nil {
		return 0, fmt.Errorf("%w: %w", errBegin, err)
	}
	copied := false // out of the other side's memory, which has it stay as it is until it is told
	for n = range keys {
		said, err := l.r.ReadByte()
		if err != nil {
			return l.before(n, copied), fmt.Errorf("%w: %w", errBegin, err)
		}
		for said == computing && n == 0 {
			if !waiting() {
				return 0, errEnough
			}
			if err := l.SetDeadline(time.Now().Add(stalled)); err != nil {
				return 0, err
			}
			if said, err = l.r.ReadByte(); err != nil {
				return 0, err
			}
		}
		if said == 0 || said == later {
			return l.all(n, copied)
		}
		seen, err := l.readKey(said, func(parts []offload.Part) bool { return into(n, parts) })
		copied = copied || seen
		if err != nil {
			return l.before(n, copied), err
		}
	}
	return l.all(len(keys), copied)
}

// all is the first n keys of an answer that has come to its end, or none that the other side may have changed while they were copied.
func (l *link) all(n int, copied bool) (int, error) {
	if err := l.took(copied); err != nil {
		return 0, err
	}
	return n, nil
}

// before is that where something has gone wrong behind them.
func (l *link) before(n int, copied bool) int {
	n, _ = l.all(n, copied) // the first error says enough
	return n
}

// readKey reads a key of so many parts, and reports whether they were copied out of the other side's memory.
func (l *link) readKey(n byte, into func(parts []offload.Part) bool) (seen bool, err error) {
	if n > kv.MaxGroups {
		return false, fmt.Errorf("a page of %d cache groups; %d are possible", n, kv.MaxGroups)
	}
	var head [partLen]byte
	parts, places := make([]offload.Part, n), 0
	var at []place
	for i := range parts {
		if _, err := io.ReadFull(l.r, head[:]); err != nil {
			return false, err
		}
		parts[i] = offload.Part{Group: int(binary.LittleEndian.Uint32(head[:])), Bytes: int64(binary.LittleEndian.Uint64(head[4:]))}
		if places = int(binary.LittleEndian.Uint32(head[12:])); places > mostPlaces {
			return false, fmt.Errorf("a page in %d pieces; %d are possible", places, mostPlaces)
		}
		if at, err = l.readPlaces(at, places, parts[i].Bytes); err != nil {
			return false, err
		}
	}
	if !into(parts) {
		return false, errRoom
	}
	if len(at) > 0 {
		return true, l.view.copyTo(parts, at)
	}
	return false, l.take(parts)
}

// ask sends a message.
func (l *link) ask(what byte, lease kv.Key, keys ...kv.Key) error {
	if err := l.SetDeadline(time.Now().Add(begun + stalled)); err != nil {
		return err
	}
	request := append(make([]byte, 0, requestLen+len(keys)*len(kv.Key{})), what)
	request = binary.LittleEndian.AppendUint32(append(request, lease[:]...), uint32(begun.Milliseconds()))
	request = append(request, byte(len(keys)))
	for _, key := range keys {
		request = append(request, key[:]...)
	}
	_, err := l.Write(request)
	return err
}

// Release implements offload.Peer: the peer is told that the lease is over.
func (p Prompt) Release() {
	l, _, err := p.take()
	if err != nil {
		return // it ends by itself
	}
	if err := l.ask(dropLease, p.lease); err != nil {
		p.end(l) // likewise
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
	if !p.near(conn) {
		return l, nil
	}
	if l, err = p.beside(l); err == nil && l.view == nil {
		err = l.share()
	}
	if err != nil {
		p.end(l) // likewise
		return nil, err
	}
	return l, nil
}

func (p *Peer) put(l *link) {
	p.mu.Lock()
	if !p.closed && len(p.idle) < keptIdle {
		p.idle = append(p.idle, l)
		l = nil
	}
	p.mu.Unlock()
	if l != nil {
		p.end(l) // others are kept
	}
}

// end ends a connection.
func (p *Peer) end(l *link) {
	_ = l.Close() // nothing that is of use is under way
	if l.view != nil {
		p.unsee(l.view)
	}
}

// Close ends the connections that nobody uses.
func (p *Peer) Close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, l := range idle {
		p.end(l)
	}
	return nil
}
