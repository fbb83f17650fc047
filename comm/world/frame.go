package world

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Frames are what goes over a connection to or from rank 0: a byte for the kind, four for the length, and that.
const (
	frameHead = 5
	maxFrame  = 1 << 30 // bytes, of an adapter's matrices
	maxHello  = 1 << 20 // bytes, before a peer is known to have the secret
)

// Kinds of frames.
const (
	beat    byte = 1 + iota // still there
	payload                 // of whoever uses the World
	lost                    // the group has failed, and why
	bye                     // the group is over, and nothing has failed
	meeting                 // a step of the meeting, in JSON
)

// link is a connection whose frames are written by any goroutine.
type link struct {
	conn net.Conn
	mu   sync.Mutex
	head [frameHead]byte
}

// writeStep is how many bytes a peer has to take within a time.
const writeStep = 1 << 20

// write writes a frame; a peer that takes nothing for so long is an error.
func (l *link) write(kind byte, data []byte, within time.Duration) error {
	if len(data) > maxFrame {
		return fmt.Errorf("comm: a message of %d bytes between ranks; %d at most are possible", len(data), maxFrame)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head[0] = kind
	binary.LittleEndian.PutUint32(l.head[1:], uint32(len(data)))
	step := data[:min(len(data), writeStep)]
	buffers := net.Buffers{l.head[:], step}
	for {
		if err := l.conn.SetWriteDeadline(time.Now().Add(within)); err != nil {
			return err
		}
		if _, err := buffers.WriteTo(l.conn); err != nil {
			return err
		}
		if data = data[len(step):]; len(data) == 0 {
			return nil
		}
		step = data[:min(len(data), writeStep)]
		buffers = net.Buffers{step}
	}
}

// read reads a frame of so many bytes at most; every part of it has to come within a time of the one before.
func (l *link) read(most int, within time.Duration) (kind byte, data []byte, err error) {
	from := &patient{l.conn, within}
	var head [frameHead]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if int64(n) > int64(most) {
		return 0, nil, fmt.Errorf("comm: a message of %d bytes between ranks; %d at most are possible", n, most)
	}
	// Memory grows with what has come: a length alone takes none.
	const step = 1 << 20
	for len(data) < int(n) {
		next := make([]byte, min(int(n)-len(data), max(step, len(data))))
		if _, err := io.ReadFull(from, next); err != nil {
			return 0, nil, fmt.Errorf("comm: after %d of %d bytes of a message: %w", len(data), n, err)
		}
		data = append(data, next...)
	}
	return head[0], data, nil
}

// patient reads from a connection whose bytes have to come within a time of those before.
type patient struct {
	conn   net.Conn
	within time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(p.within)); err != nil {
		return 0, err
	}
	return p.conn.Read(b)
}

// say writes a step of the meeting, and hear reads one.
func (l *link) say(v any, within time.Duration) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.write(meeting, data, within)
}

func (l *link) hear(v any, within time.Duration) error {
	kind, data, err := l.read(maxHello, within)
	if err != nil {
		return err
	}
	if kind != meeting {
		return fmt.Errorf("comm: a message of kind %d while ranks meet", kind)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("comm: a step of the meeting: %w", err)
	}
	return nil
}
