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

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
)

// A message of who has dialled is a byte that says what it wants, a key or the name of a lease, and how long the other side may wait for the key to come, ms (4 bytes). The answer
// to a key is the number of its parts (1 byte; 0: it is not there), group (4) and length (8) of each, and their bytes. A lease that is given back has no answer.
const (
	wantKey    = 1
	dropLease  = 2
	requestLen = 1 + len(kv.Key{}) + 4
)

// Source is where pages are taken from: an engine's tier.
type Source interface {
	// Await is the pages of host memory under a key, as soon as they are whole, within a time. They stay as they are until release.
	Await(key kv.Key, patience time.Duration, gone <-chan struct{}) (parts []offload.Part, release func())
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
	w := bufio.NewWriterSize(conn, 1<<16)
	for {
		if _, err := io.ReadFull(conn, request[:]); err != nil {
			return
		}
		key := kv.Key(request[1 : 1+len(kv.Key{})])
		switch request[0] {
		case dropLease:
			s.source.Release(key)
			continue
		case wantKey:
		default:
			return
		}
		patience := min(time.Duration(binary.LittleEndian.Uint32(request[1+len(key):]))*time.Millisecond, mostPatience)
		parts, release := s.source.Await(key, patience, s.gone)
		err := conn.SetWriteDeadline(time.Now().Add(stalled))
		if err == nil {
			err = send(w, parts)
		}
		release()
		if err != nil {
			return
		}
	}
}

func send(w *bufio.Writer, parts []offload.Part) error {
	head := []byte{byte(len(parts))}
	for _, p := range parts {
		head = binary.LittleEndian.AppendUint32(head, uint32(p.Group))
		head = binary.LittleEndian.AppendUint64(head, uint64(p.Bytes))
	}
	if _, err := w.Write(head); err != nil {
		return err
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
