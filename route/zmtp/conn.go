// Package zmtp speaks ZeroMQ's wire protocol (ZMTP 3.0, rfc.zeromq.org/spec/23) over TCP as far as KV events need it: messages of several frames,
// without authentication (mechanism NULL), from PUB to SUB sockets, and answers of a ROUTER to REQ and DEALER sockets.
package zmtp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	greetingTime = 5 * time.Second
	writeTime    = 10 * time.Second
	maxMessage   = 64 << 20 // bytes that are taken
	maxAsked     = 64 << 10 // likewise, from those who subscribe or ask for more: anybody may connect to a publisher
	maxFrames    = 64       // of a message
	maxTopics    = 1024     // of a subscriber
)

// Flags of a frame.
const (
	more    = 1
	long    = 2
	command = 4
)

// conn is a connection after its handshake.
type conn struct {
	net.Conn
	r    *bufio.Reader
	peer string // its socket type
	most int    // bytes of a message

	mu sync.Mutex // of w: pings are answered beside messages
	w  *bufio.Writer
}

// greeting is the first 64 bytes of each side: signature, version 3.0, mechanism, no server.
func greeting() []byte {
	b := make([]byte, 64)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:], "NULL")
	return b
}

// handshake makes a connection of a socket of this type out of raw. raw is closed if that fails.
func handshake(raw net.Conn, socket string) (c *conn, err error) {
	defer func() {
		if err != nil {
			raw.Close()
			err = fmt.Errorf("zmtp: %s: %w", raw.RemoteAddr(), err)
		}
	}()
	_ = raw.SetDeadline(time.Now().Add(greetingTime))
	most := maxMessage
	if socket == "PUB" || socket == "ROUTER" {
		most = maxAsked
	}
	c = &conn{Conn: raw, most: most, r: bufio.NewReaderSize(raw, 32<<10), w: bufio.NewWriterSize(raw, 32<<10)}
	if _, err := raw.Write(greeting()); err != nil {
		return nil, err
	}
	var theirs [64]byte
	if _, err := io.ReadFull(c.r, theirs[:]); err != nil {
		return nil, err
	}
	if theirs[0] != 0xff || theirs[9]&1 == 0 || theirs[10] < 3 {
		return nil, errors.New("the other side does not speak ZMTP 3")
	}
	if mechanism := string(bytes.TrimRight(theirs[12:32], "\x00")); mechanism != "NULL" {
		return nil, fmt.Errorf("the other side wants the mechanism %q; NULL is spoken here", mechanism)
	}
	ready := property([]byte("\x05READY"), "Socket-Type", socket)
	if socket == "REQ" || socket == "DEALER" || socket == "ROUTER" {
		ready = property(ready, "Identity", "")
	}
	c.frame(command, ready)
	if err := c.w.Flush(); err != nil {
		return nil, err
	}
	flags, body, err := c.read()
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(body, []byte("\x05READY"))
	if flags&command == 0 || !ok {
		return nil, errors.New("the other side is not ready")
	}
	if c.peer, err = socketType(rest); err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Time{})
	return c, nil
}

func property(b []byte, name, value string) []byte {
	b = append(b, byte(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// socketType reads the property of that name.
func socketType(b []byte) (string, error) {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+4 {
			break
		}
		name := string(b[1 : 1+n])
		size := binary.BigEndian.Uint32(b[1+n:])
		b = b[1+n+4:]
		if uint64(size) > uint64(len(b)) {
			break
		}
		if strings.EqualFold(name, "Socket-Type") {
			return string(b[:size]), nil
		}
		b = b[size:]
	}
	return "", errors.New("the other side does not say what socket it is")
}

// frame writes a frame to the buffer.
func (c *conn) frame(flags byte, body []byte) {
	if len(body) < 256 {
		c.w.Write([]byte{flags, byte(len(body))})
	} else {
		c.w.Write(binary.BigEndian.AppendUint64([]byte{flags | long}, uint64(len(body))))
	}
	c.w.Write(body)
}

// send writes a message.
func (c *conn) send(frames ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	for i, f := range frames {
		flags := byte(more)
		if i == len(frames)-1 {
			flags = 0
		}
		c.frame(flags, f)
	}
	return c.w.Flush()
}

// read reads a frame.
func (c *conn) read() (flags byte, body []byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(c.r, head[:2]); err != nil {
		return 0, nil, err
	}
	flags = head[0]
	size := uint64(head[1])
	if flags&long != 0 {
		if _, err := io.ReadFull(c.r, head[2:9]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(head[1:])
	}
	if flags&^(more|long|command) != 0 || size > uint64(c.most) {
		return 0, nil, fmt.Errorf("a frame with flags %#x of %d bytes; %d are the most", flags, size, c.most)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, c.r, int64(size)); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return flags, b.Bytes(), nil
}

// receive reads a message. Commands between messages are answered or passed over.
func (c *conn) receive() (frames [][]byte, err error) {
	for size := 0; ; {
		flags, body, err := c.read()
		if err != nil {
			return nil, err
		}
		if flags&command != 0 {
			if ping, ok := bytes.CutPrefix(body, []byte("\x04PING")); ok && len(ping) >= 2 { // 2 bytes are how long it is to be waited for
				if err := c.pong(ping[2:]); err != nil {
					return nil, err
				}
			}
			continue
		}
		if size += len(body); size > c.most {
			return nil, fmt.Errorf("a message of more than %d bytes", c.most)
		}
		if frames = append(frames, body); flags&more == 0 {
			return frames, nil
		}
		if len(frames) >= maxFrames {
			return nil, fmt.Errorf("a message of more than %d frames", maxFrames)
		}
	}
}

func (c *conn) pong(context []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	c.frame(command, append([]byte("\x04PONG"), context...))
	return c.w.Flush()
}

// Address is the host and port of an endpoint, tcp://HOST:PORT. every says that the host is * (or none): an address to listen on.
func Address(endpoint string) (address string, every bool, err error) {
	rest, ok := strings.CutPrefix(endpoint, "tcp://")
	host, port, splitErr := net.SplitHostPort(rest)
	if !ok || splitErr != nil || port == "" {
		return "", false, fmt.Errorf("zmtp: the endpoint is %q; tcp://*:PORT and tcp://HOST:PORT are possible", endpoint)
	}
	if every = host == "*" || host == "" || host == "::" || host == "0.0.0.0"; host == "*" {
		host = ""
	}
	return net.JoinHostPort(host, port), every, nil
}
