// Package kvpeer moves pages of the KV cache from the host memory of one server to that of another, by what they hold: a decode server asks a prefill server for the keys of a prompt
// that it lacks. Several connections carry a prompt's pages side by side.
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

// A message of who has dialled is a byte that says what it wants, the name of a lease, a key, and how long the other side may wait for the lease's prompt to be begun, ms (4 bytes).
// The answer to a key is the number of its parts (1 byte; 0: it is not there), group (4) and length (8) of each, and their bytes; before that, a byte now and then that says that
// the prompt is being computed. A lease that is given back has no answer. Of shared memory the message has the nonce and the name in place of a lease and a key;
// the answer is a byte, 1 if it could be opened, and pages then come through it; see memory.go.
const (
	wantKey     = 1
	dropLease   = 2
	shareMemory = 3
	requestLen  = 1 + 2*len(kv.Key{}) + 4
	computing   = 255
)

// Source is where pages are taken from: an engine's tier.
type Source interface {
	// Await is the pages of host memory under a key, as soon as they are whole, within a time. They stay as they are until release. computing says that the prompt of the lease is
	// being computed, so that it is worth waiting on.
	Await(key, lease kv.Key, patience time.Duration, gone <-chan struct{}) (parts []offload.Part, release func(), computing bool)
	// Release gives a lease back.
	Release(lease kv.Key)
}

// Server answers those who ask for pages.
type Server struct {
	listener net.Listener
	secret   []byte
	seed     kv.Key
	source   Source
	log      func(err error)

	mu      sync.Mutex
	conns   map[net.Conn]bool
	gone    chan struct{}
	working sync.WaitGroup
}

const (
	mostConns    = 1024
	mostPatience = time.Minute
	acceptPause  = 100 * time.Millisecond
	stalled      = 10 * time.Second // a caller that takes nothing for so long is given up
	beat         = 500 * time.Millisecond
)

// Serve begins to answer at a listener, which the server owns. log is told of callers that are refused.
func Serve(l net.Listener, secret []byte, seed kv.Key, source Source, log func(err error)) *Server {
	s := &Server{listener: l, secret: secret, seed: seed, source: source, log: log, conns: map[net.Conn]bool{}, gone: make(chan struct{})}
	s.working.Go(s.accept)
	return s
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of this connection, or too many files are open
			s.log(fmt.Errorf("kvpeer: %w", err))
			select {
			case <-s.gone:
			case <-time.After(acceptPause):
			}
			continue
		}
		if !s.keep(conn) {
			_ = conn.Close() // too many, or the end
			continue
		}
		s.working.Go(func() {
			defer s.forget(conn)
			if err := answer(conn, s.secret, s.seed); err != nil {
				s.log(err)
				return
			}
			s.answerAll(conn)
		})
	}
}

func (s *Server) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gone:
		return false
	default:
	}
	if len(s.conns) >= mostConns {
		return false
	}
	s.conns[conn] = true
	return true
}

func (s *Server) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	_ = conn.Close() // nothing more is to be said
}

// answerAll answers a connection's messages until it ends.
func (s *Server) answerAll(conn net.Conn) {
	var request [requestLen]byte
	a := asked{conn: conn, w: bufio.NewWriterSize(conn, 1<<16)}
	defer a.close()
	for {
		if _, err := io.ReadFull(conn, request[:]); err != nil {
			return
		}
		lease, key := kv.Key(request[1:1+len(kv.Key{})]), kv.Key(request[1+len(kv.Key{}):1+2*len(kv.Key{})])
		switch request[0] {
		case dropLease:
			s.source.Release(lease)
			continue
		case shareMemory:
			if a.memory != nil {
				return
			}
			said := byte(0)
			if a.memory = openShared(lease, key); a.memory != nil {
				said = full
			}
			if _, err := conn.Write([]byte{said}); err != nil {
				return
			}
			continue
		case wantKey:
		default:
			return
		}
		patience := min(time.Duration(binary.LittleEndian.Uint32(request[requestLen-4:]))*time.Millisecond, mostPatience)
		if err := s.answerKey(&a, key, lease, patience); err != nil {
			return
		}
	}
}

// asked is a connection that is answered.
type asked struct {
	conn   net.Conn
	w      *bufio.Writer
	memory *shm.Mapped // see link
}

func (a *asked) close() {
	if a.memory != nil {
		_ = a.memory.Close() // nothing goes through it
	}
}

// answerKey sends a key's pages when they are there.
func (s *Server) answerKey(a *asked, key, lease kv.Key, patience time.Duration) error {
	for {
		parts, release, waits := s.source.Await(key, lease, min(patience, beat), s.gone)
		err := a.conn.SetWriteDeadline(time.Now().Add(stalled))
		patience -= beat
		switch {
		case err != nil:
		case len(parts) > 0 || !waits && patience <= 0:
			err = a.send(parts)
			release()
			return err
		case waits: // as long as that is so
			patience = beat
			if err = a.w.WriteByte(computing); err == nil {
				err = a.w.Flush()
			}
		}
		release()
		if err != nil {
			return err
		}
		select {
		case <-s.gone:
			return net.ErrClosed
		default:
		}
	}
}

func (a *asked) send(parts []offload.Part) error {
	w := a.w
	head := []byte{byte(len(parts))}
	for _, p := range parts {
		head = binary.LittleEndian.AppendUint32(head, uint32(p.Group))
		head = binary.LittleEndian.AppendUint64(head, uint64(p.Bytes))
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	if n := chunks(a.memory, parts); n > 0 {
		return a.give(parts, n)
	}
	for _, p := range parts {
		for _, piece := range p.Pieces {
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close ends all connections.
func (s *Server) Close() error {
	s.mu.Lock()
	close(s.gone)
	for conn := range s.conns {
		_ = conn.Close() // whoever asks is told by the end
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.working.Wait()
	return err
}
