// Package tcp is communication between processes over TCP connections, which always works. Large messages go over several streams to each peer side by side.
package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
	"unsafe"
)

const (
	headBytes = 16       // of a message: its kind, then how many numbers it has
	oneShot   = 32 << 10 // bytes of an all-reduce of which each rank sends all to all
	striped   = 64 << 10 // numbers of a message that goes over all streams
	textMost  = 1024     // bytes of why a rank has aborted
	textTime  = time.Second
)

// Kinds of messages, for ranks that do not make the same calls.
const (
	allReduce uint32 = 1 + iota
	allGather
	message
	abort
)

var kinds = map[uint32]string{allReduce: "an all-reduce", allGather: "an all-gather", message: "a message"}

// Rank is one process's end of a group. It implements comm.Communicator.
type Rank struct {
	number int
	names  []int
	peers  []*peer // nil: this rank
	got    [][]float32
	closed bool
	mu     sync.Mutex
	err    error
}

// peer is the streams to another rank.
type peer struct{ streams []*stream }

// stream is a connection, with a goroutine that writes and one that reads.
type stream struct {
	conn       net.Conn
	out, in    chan job
	writing    sync.Mutex
	head, want [headBytes]byte
}

// job is numbers to write or to read into; done is told when they are.
type job struct {
	kind uint32
	x    []float32
	done chan<- error
}

// New is the rank of a group whose connections to every other rank are given, as many to each; those to itself are none. names are the ranks' numbers in errors.
func New(number int, names []int, conns [][]net.Conn) *Rank {
	r := &Rank{number: number, names: names, peers: make([]*peer, len(conns)), got: make([][]float32, len(conns))}
	for i, streams := range conns {
		if i == number {
			continue
		}
		r.peers[i] = &peer{}
		for _, c := range streams {
			s := &stream{conn: c, out: make(chan job), in: make(chan job)}
			r.peers[i].streams = append(r.peers[i].streams, s)
			go s.write()
			go s.read()
		}
	}
	return r
}

// Rank implements comm.Communicator.
func (r *Rank) Rank() int { return r.number }

// Size implements comm.Communicator.
func (r *Rank) Size() int { return len(r.peers) }

// Close ends the connections. No call may be under way.
func (r *Rank) Close() error {
	r.fail(errors.New("comm: the group is closed"))
	if r.closed {
		return nil
	}
	r.closed = true
	var err error
	for _, p := range r.peers {
		if p == nil {
			continue
		}
		for _, s := range p.streams {
			close(s.out)
			close(s.in)
			err = errors.Join(err, s.conn.Close())
		}
	}
	return err
}

// fail notes why calls end, if nothing was before, and reports whether it was the first.
func (r *Rank) fail(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return false
	}
	r.err = err
	return true
}

func (r *Rank) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Abort implements comm.Communicator. Peers are told why where no message is half written.
func (r *Rank) Abort(err error) {
	if !r.fail(err) {
		return
	}
	text := err.Error()
	text = text[:min(len(text), textMost)]
	for _, p := range r.peers {
		if p == nil {
			continue
		}
		for _, s := range p.streams {
			s.abort(text)
		}
	}
}

// abort ends what the stream's goroutines wait for.
func (s *stream) abort(text string) {
	past := time.Unix(1, 0)
	_ = s.conn.SetReadDeadline(past) // fails on a connection that is closed already
	if s.writing.TryLock() {
		_ = s.conn.SetWriteDeadline(time.Now().Add(textTime))
		head := make([]byte, headBytes, headBytes+len(text))
		binary.LittleEndian.PutUint32(head, abort)
		binary.LittleEndian.PutUint64(head[8:], uint64(len(text)))
		_, _ = s.conn.Write(append(head, text...)) // to tell a peer that has gone is not needed
		s.writing.Unlock()
	}
	_ = s.conn.SetWriteDeadline(past)
	if c, ok := s.conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// write writes messages, until there are no more jobs.
func (s *stream) write() {
	for j := range s.out {
		s.writing.Lock()
		binary.LittleEndian.PutUint32(s.head[:], j.kind)
		binary.LittleEndian.PutUint64(s.head[8:], uint64(len(j.x)))
		buffers := net.Buffers{s.head[:], bytesOf(j.x)}
		_, err := buffers.WriteTo(s.conn)
		s.writing.Unlock()
		j.done <- err
	}
}

// read reads messages, until there are no more jobs.
func (s *stream) read() {
	for j := range s.in {
		j.done <- s.receive(j.kind, j.x)
	}
}

// receive reads a message of a kind and of a length that are known.
func (s *stream) receive(kind uint32, x []float32) error {
	if _, err := io.ReadFull(s.conn, s.want[:]); err != nil {
		return err
	}
	k, n := binary.LittleEndian.Uint32(s.want[:]), binary.LittleEndian.Uint64(s.want[8:])
	switch {
	case k == abort:
		text := make([]byte, min(n, textMost))
		if _, err := io.ReadFull(s.conn, text); err != nil {
			return err
		}
		return &aborted{string(text)}
	case k != kind:
		return fmt.Errorf("is in %s and this one in %s", kinds[k], kinds[kind])
	case n != uint64(len(x)):
		return fmt.Errorf("gives %d numbers to %s and this one %d", n, kinds[kind], len(x))
	}
	_, err := io.ReadFull(s.conn, bytesOf(x))
	return err
}

// aborted is why a peer has aborted.
type aborted struct{ text string }

func (a *aborted) Error() string { return a.text }

// bytesOf is numbers as they lie in memory: little-endian, which ranks agree on when they meet.
func bytesOf(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}
