package kvpeer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/ridge-llm/ridge/comm/shm"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
)

// Between processes of one host, of which one cannot map the other's pages (view.go), pages go through memory that both map, a piece of it for each connection, in chunks: who gives a page copies a chunk to one half of the memory and sends a
// byte, while who has asked copies from the other half, and sends a byte where that half is needed again. So a page of two chunks costs no more messages than one
// that comes over the connection, nobody waits but for the connection, and its end says that the other side is gone.
const (
	chunk  = 512 << 10 // bytes
	halves = 2
	// leastShared is the fewest bytes of a page for which that is worth its while.
	leastShared = 32 << 10
	nonceLen    = 16 // bytes that name the memory beside its path
	full        = 1
	empty       = 2
)

var errSharing = errors.New("the other side does not keep to the order of messages about shared memory")

// sameHost reports whether the other end of a connection may be on this host.
func sameHost(conn net.Conn) bool {
	here, ok := conn.LocalAddr().(*net.TCPAddr)
	there, also := conn.RemoteAddr().(*net.TCPAddr)
	return ok && also && (there.IP.IsLoopback() || here.IP.Equal(there.IP))
}

// share has a connection's pages go through shared memory, if there is some and the other side can open it.
func (l *link) share() error {
	m, err := shm.Reserve(halves * chunk)
	if err != nil {
		return nil // there is none, or no room: the connection does
	}
	defer func() { _ = shm.Remove(m) }() // the other side has opened it by then, or will not
	memory, err := shm.Map(m, halves*chunk)
	if err != nil {
		return nil // likewise
	}
	var nonce, name kv.Key
	id, err := hex.DecodeString(m.Nonce)
	if file := filepath.Base(m.Path); err != nil || copy(nonce[:], id) < nonceLen || copy(name[:], file) < len(file) {
		return memory.Close()
	}
	said := byte(0)
	if err = l.ask(shareMemory, kv.Key{}, nonce, name); err == nil {
		said, err = l.r.ReadByte()
	}
	if err != nil || said != full {
		return errors.Join(err, memory.Close())
	}
	l.memory = memory
	return nil
}

// openShared is the other side of share; nil: it cannot be opened.
func openShared(nonce, name kv.Key) *shm.Mapped {
	file, _, _ := bytes.Cut(name[:], []byte{0})
	m, err := shm.Named(string(file), hex.EncodeToString(nonce[:nonceLen]))
	if err != nil {
		return nil
	}
	memory, err := shm.Map(m, halves*chunk)
	if err != nil {
		return nil // it is another host's
	}
	return memory
}

// chunks is how many chunks of shared memory a page takes; 0: it comes over the connection.
func chunks(memory *shm.Mapped, parts []offload.Part) int {
	n := int64(0)
	for _, p := range parts {
		n += p.Bytes
	}
	if memory == nil || n < leastShared {
		return 0
	}
	return int((n + chunk - 1) / chunk)
}

// cursor goes through the bytes of parts.
type cursor struct {
	pieces [][]byte
}

func cursorOf(parts []offload.Part) (c cursor) {
	for _, p := range parts {
		c.pieces = append(c.pieces, p.Pieces...)
	}
	return c
}

// next does something with the next bytes, up to the length of memory, as far as they lie together, beside their places there.
func (c *cursor) next(memory []byte, do func(page, memory []byte)) {
	for len(c.pieces) > 0 && len(memory) > 0 {
		n := min(len(c.pieces[0]), len(memory))
		do(c.pieces[0][:n], memory[:n])
		memory = memory[n:]
		if c.pieces[0] = c.pieces[0][n:]; len(c.pieces[0]) == 0 {
			c.pieces = c.pieces[1:]
		}
	}
}

// half is the part of shared memory that a chunk goes through.
func half(memory *shm.Mapped, i int) []byte { return memory.Bytes[i%halves*chunk:][:chunk] }

// receive takes a page from shared memory.
func (l *link) receive(parts []offload.Part, n int) error {
	c := cursorOf(parts)
	for i := range n {
		switch said, err := l.r.ReadByte(); {
		case err != nil:
			return err
		case said != full:
			return errSharing
		}
		c.next(half(l.memory, i), func(page, memory []byte) { copy(page, memory) })
		if i+halves < n {
			if err := l.SetDeadline(time.Now().Add(stalled)); err != nil {
				return err
			}
			if _, err := l.Write([]byte{empty}); err != nil {
				return err
			}
		}
	}
	return nil
}

// give puts a page into shared memory.
func (a *asked) give(parts []offload.Part, n int) error {
	c := cursorOf(parts)
	for i := range n {
		if i >= halves {
			if err := a.emptied(); err != nil {
				return err
			}
		}
		c.next(half(a.memory, i), func(page, memory []byte) { copy(memory, page) })
		if err := a.w.WriteByte(full); err != nil {
			return err
		}
		if err := a.w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// emptied waits until a half of shared memory is free.
func (a *asked) emptied() error {
	var said [1]byte
	err := a.conn.SetDeadline(time.Now().Add(stalled))
	if err == nil {
		_, err = io.ReadFull(a.conn, said[:])
	}
	if err == nil && said[0] != empty {
		err = errSharing
	}
	return errors.Join(err, a.conn.SetReadDeadline(time.Time{}))
}

// take reads a page's bytes from where they come.
func (l *link) take(parts []offload.Part) error {
	if n := chunks(l.memory, parts); n > 0 {
		return l.receive(parts, n)
	}
	for _, p := range parts {
		for _, piece := range p.Pieces {
			if _, err := io.ReadFull(l.r, piece); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close ends the connection.
func (l *link) Close() error {
	err := l.Conn.Close()
	if l.memory != nil {
		err = errors.Join(err, l.memory.Close())
	}
	return err
}
