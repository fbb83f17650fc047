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
	"os"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/comm/shm"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
)

// A message of who has dialled is a byte that says what it wants, the name of a lease, how long the other side may wait for the lease's prompt to be begun, ms (4 bytes), the number of keys
// (1 byte) and the keys. The answer to wantKeys is, for each of them, the number of its parts (1 byte), of each of them group (4), length (8) and the number of places (4) in this process's
// memory (see view.go) with their place (8) and length (4), and then the bytes of the parts, unless there are places. It ends early with a key that is not there (0) or, behind the first, not
// there yet (later). Before the first there is a byte now and then that says that the prompt is being computed. tookKeys says that what the places of the last answer said has been copied;
// it, and dropLease, which gives a lease back, have no answer. wantBeside is answered by 0, or by 1 and a token, the name of a Unix socket, which begins with another handshake and with the
// memory's file. Of shared memory (memory.go) the message has the nonce and the name as keys; the answer is a byte, 1 if it could be opened, and pages then come through it.
const (
	wantKeys    = 1
	dropLease   = 2
	shareMemory = 3
	wantBeside  = 4
	tookKeys    = 5
	requestLen  = 1 + len(kv.Key{}) + 4 + 1
	partLen     = 16
	mostKeys    = 64 // of a message
	later       = 254
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

	token token        // names local
	local net.Listener // of this host; nil: nobody can map this process's pages
	file  *os.File     // of them

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
	s.listenBeside()
	s.working.Go(func() { s.accept(l, s.answerAll) })
	if s.local != nil {
		s.working.Go(func() {
			s.accept(s.local, func(conn net.Conn) {
				if s.show(conn) == nil {
					s.answerAll(conn)
				}
			})
		})
	}
	return s
}

// accept has connections of a listener answered.
func (s *Server) accept(l net.Listener, do func(conn net.Conn)) {
	for {
		conn, err := l.Accept()
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
			do(conn)
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
	a := asked{conn: conn, w: bufio.NewWriterSize(conn, 1<<16)}
	defer a.close()
	var request [requestLen]byte
	for {
		if err := a.patience(); err != nil {
			return
		}
		if _, err := io.ReadFull(conn, request[:]); err != nil {
			return
		}
		a.letGo() // whatever is asked next, what was asked before has been taken
		lease := kv.Key(request[1:])
		keys := make([]kv.Key, request[requestLen-1])
		if len(keys) > mostKeys {
			return
		}
		for i := range keys {
			if _, err := io.ReadFull(conn, keys[i][:]); err != nil {
				return
			}
		}
		patience := time.Duration(binary.LittleEndian.Uint32(request[1+len(lease):])) * time.Millisecond
		if err := s.answerOne(&a, request[0], lease, keys, patience); err != nil {
			return
		}
	}
}

var errMessage = errors.New("a message that is none")

// answerOne answers a message.
func (s *Server) answerOne(a *asked, what byte, lease kv.Key, keys []kv.Key, patience time.Duration) error {
	switch {
	case what == wantKeys && len(keys) > 0:
		return s.answerKeys(a, lease, keys, min(patience, mostPatience))
	case what == dropLease:
		s.source.Release(lease)
		return nil
	case what == tookKeys:
		return nil
	case what == wantBeside:
		if s.local == nil {
			return a.say(0)
		}
		return a.say(append([]byte{full}, s.token[:]...)...)
	case what == shareMemory && len(keys) == 2 && a.memory == nil:
		if a.memory = openShared(keys[0], keys[1]); a.memory != nil {
			return a.say(full)
		}
		return a.say(0)
	}
	return errMessage
}

// asked is a connection that is answered.
type asked struct {
	conn   net.Conn
	w      *bufio.Writer
	memory *shm.Mapped // see link
	held   []func()    // let go of pages that the other side copies
}

func (a *asked) close() {
	_ = a.conn.Close() // before the other side is let down: see view.go
	a.letGo()
	if a.memory != nil {
		_ = a.memory.Close() // nothing goes through it
	}
}

// say is an answer of a few bytes.
func (a *asked) say(b ...byte) error {
	if err := a.conn.SetWriteDeadline(time.Now().Add(stalled)); err != nil {
		return err
	}
	_, err := a.conn.Write(b)
	return err
}

// answerKeys sends the pages of the first key when they are there, and of those behind it as far as they are there as well.
func (s *Server) answerKeys(a *asked, lease kv.Key, keys []kv.Key, patience time.Duration) error {
	if there, err := s.answerFirst(a, lease, keys[0], patience); err != nil || !there {
		return err
	}
	for _, key := range keys[1:] {
		parts, release, _ := s.source.Await(key, lease, 0, s.gone)
		if err := a.conn.SetWriteDeadline(time.Now().Add(stalled)); err != nil {
			release()
			return err
		}
		if len(parts) == 0 {
			release()
			if err := a.w.WriteByte(later); err != nil {
				return err
			}
			break
		}
		if err := a.send(parts, release); err != nil {
			return err
		}
	}
	return a.w.Flush()
}

// answerFirst sends a key's pages when they are there, or says that they are not.
func (s *Server) answerFirst(a *asked, lease, key kv.Key, patience time.Duration) (there bool, err error) {
	for {
		parts, release, waits := s.source.Await(key, lease, min(patience, beat), s.gone)
		err := a.conn.SetWriteDeadline(time.Now().Add(stalled))
		patience -= beat
		if err == nil && len(parts) > 0 {
			return true, a.send(parts, release)
		}
		release()
		switch {
		case err != nil:
			return false, err
		case !waits && patience <= 0:
			return false, a.say(0)
		case waits: // as long as that is so
			patience = beat
			if err := a.say(computing); err != nil {
				return false, err
			}
		}
		select {
		case <-s.gone:
			return false, net.ErrClosed
		default:
		}
	}
}

// send sends a key's pages, and has them released when nobody reads them any more.
func (a *asked) send(parts []offload.Part, release func()) error {
	places, seen := [][]place(nil), false
	if _, local := a.conn.(*net.UnixConn); local {
		places, seen = placesOf(parts)
	}
	if seen {
		a.hold(release)
	} else {
		defer release()
	}
	head := []byte{byte(len(parts))}
	for i, p := range parts {
		head = binary.LittleEndian.AppendUint32(head, uint32(p.Group))
		head = binary.LittleEndian.AppendUint64(head, uint64(p.Bytes))
		if !seen {
			head = binary.LittleEndian.AppendUint32(head, 0)
			continue
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(len(places[i])))
		for _, at := range places[i] {
			head = binary.LittleEndian.AppendUint64(head, uint64(at.at))
			head = binary.LittleEndian.AppendUint32(head, uint32(at.n))
		}
	}
	if _, err := a.w.Write(head); err != nil || seen {
		return err
	}
	if n := chunks(a.memory, parts); n > 0 {
		return a.give(parts, n)
	}
	for _, p := range parts {
		for _, piece := range p.Pieces {
			if _, err := a.w.Write(piece); err != nil {
				return err
			}
		}
	}
	return nil
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
	if s.local != nil {
		err = errors.Join(err, s.local.Close(), s.file.Close())
	}
	s.working.Wait()
	return err
}
